package cli

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stag-rdma/stag/conformance/internal/bench"
	"github.com/stag-rdma/stag/internal/measure"
)

// commitCmd is bench commit.
func (f *benchFlags) commitCmd() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "commit", Short: "Appends of 4 KiB to a commit log in another process", Args: wantArgs(0, ""),
		Example: "  conformance bench commit\n  conformance bench commit --dir /srv/data --only producers",
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.commit(cmd, dir) },
	}
	cmd.Flags().StringVar(&dir, "dir", os.TempDir(), "directory on the disk to measure")
	return cmd
}

func (f *benchFlags) commit(cmd *cobra.Command, dir string) (err error) {
	n, dur := 5000, time.Second
	if f.quick {
		n, dur = 200, 50*time.Millisecond
	}
	ctx, done := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer done()
	dir, remove, err := measure.Scratch(dir, "bench-commit")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	var p bench.CommitPeer
	stop, err := measure.StartPeer(ctx, &p, os.Stderr, "bench", "commit-peer", dir)
	if err != nil {
		return err
	}
	defer stop()
	return f.measure(cmd, func(told progressFunc) ([]bench.Result, error) {
		return measure.Until(ctx, func() ([]bench.Result, error) {
			return bench.Commit(p, dir, f.only, f.rounds, n, dur, told)
		})
	})
}

// commitPeerCmd is the consumer.
func commitPeerCmd() *cobra.Command {
	return &cobra.Command{
		Use: "commit-peer DIR", Short: "The other process of bench commit", Args: cobra.ExactArgs(1), Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			p, stop, err := bench.ServeCommit(args[0])
			if err != nil {
				return err
			}
			defer stop()
			return measure.ServePeer(p, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}
