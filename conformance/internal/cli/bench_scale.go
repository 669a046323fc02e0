package cli

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/stag-rdma/stag/conformance/internal/bench"
	"github.com/stag-rdma/stag/internal/measure"
)

// scaleCmd is bench scale.
func (f *benchFlags) scaleCmd() *cobra.Command {
	return &cobra.Command{
		Use: "scale", Short: "10,000 connections, 2,000 clients, and how they share (Linux)", Args: wantArgs(0, ""),
		Example: "  conformance bench scale --rounds 3\n  conformance bench scale --quick",
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.scale(cmd) },
	}
}

func (f *benchFlags) scale(cmd *cobra.Command) error {
	p, stop, err := startScalePeer(cmd.Context())
	if err != nil {
		return err
	}
	defer stop()
	return f.measure(cmd, func(told progressFunc) ([]bench.Result, error) {
		return bench.Scale(p, f.only, f.rounds, f.quick, told)
	})
}

func startScalePeer(ctx context.Context) (p bench.ScalePeer, stop func(), err error) {
	stop, err = measure.StartPeer(ctx, &p, os.Stderr, "bench", "scale-peer")
	return p, stop, err
}

// scalePeerCmd is the server.
func scalePeerCmd() *cobra.Command {
	return &cobra.Command{
		Use: "scale-peer", Short: "The other process of bench scale", Args: wantArgs(0, ""), Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, stop, err := bench.ServeScale()
			if err != nil {
				return err
			}
			defer stop()
			return measure.ServePeer(p, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}
