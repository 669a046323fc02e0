package cli

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stag-rdma/stag/conformance/internal/bench"
	"github.com/stag-rdma/stag/internal/measure"
)

// growCmd is bench grow.
func (f *benchFlags) growCmd() *cobra.Command {
	return &cobra.Command{
		Use: "grow", Short: "How cost grows with messages, FPDUs and connections (Linux)", Args: wantArgs(0, ""),
		Long: `grow measures throughput and processor time per GiB by size of message,
size of FPDU and number of connections, and prints tables.`,
		Example: "  conformance bench grow",
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.grow(cmd) },
	}
}

func (f *benchFlags) grow(cmd *cobra.Command) error {
	p, stop, err := startScalePeer(cmd.Context())
	if err != nil {
		return err
	}
	defer stop()
	gs, err := bench.Grow(p, f.quick, progress(cmd.ErrOrStderr()))
	if err != nil {
		return err
	}
	if f.json {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(gs)
	}
	tw := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	for i := range gs {
		fmt.Fprintf(tw, "%s\n%s\tstag MB/s\tTCP MB/s\tratio\tstag CPU s/GiB\tTCP CPU s/GiB\n", gs[i].Title, gs[i].X)
		for _, p := range gs[i].Points {
			fmt.Fprintf(tw, "%s\t%.4g\t%.4g\t%.2f\t%.3g\t%.3g\n", measure.Short(p.X), p.Ours.Rate, p.TCP.Rate, p.Ours.Rate/p.TCP.Rate, p.Ours.CPU, p.TCP.CPU)
		}
		fmt.Fprintln(tw)
	}
	return tw.Flush()
}
