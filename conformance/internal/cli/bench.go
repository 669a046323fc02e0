package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/stag-rdma/stag/conformance/internal/bench"
	"github.com/stag-rdma/stag/internal/measure"
)

// benchFlags are the flags of the benchmarks.
type benchFlags struct {
	json   bool
	rounds int
	quick  bool
	goals  bool
	only   string
	prof   string
}

func benchCmd() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the engine and the transport against plain TCP",
		Long: `bench measures ratios of stag to plain TCP on the same machine in the
same run, in alternating rounds, both with TCP reno. It prints the medians, and the
smallest and largest ratios, and exits 1 if a gate is missed. A goal is what we aim
at beyond the gate; with --goals it is the gate.`,
		Example: `  conformance bench engine
  conformance bench rpc --rounds 15 --goals
  conformance bench rpc --json | jq .`,
		Args: wantArgs(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().BoolVar(&f.json, "json", false, "print all figures of all rounds as JSON")
	cmd.PersistentFlags().IntVar(&f.rounds, "rounds", 9, "rounds of each case")
	cmd.PersistentFlags().BoolVar(&f.goals, "goals", false, "also exit 1 if a goal is missed")
	cmd.PersistentFlags().BoolVar(&f.quick, "quick", false, "short rounds, only to see that it runs")
	cmd.PersistentFlags().StringVar(&f.only, "only", "", "run only the cases whose names contain `TEXT`")
	cmd.PersistentFlags().StringVar(&f.prof, "cpuprofile", "", "write a CPU profile of this process to `FILE`")
	cmd.AddCommand(&cobra.Command{
		Use: "engine", Short: "RDMA Writes, Reads and Sends on one processor", Args: wantArgs(0, ""),
		Example: "  conformance bench engine\n  conformance bench engine --only Read --cpuprofile cpu.prof",
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.engine(cmd) },
	}, &cobra.Command{
		Use: "rpc", Short: "Calls between two processes, and idle connections", Args: wantArgs(0, ""),
		Example: "  conformance bench rpc\n  conformance bench rpc --only callers --rounds 15",
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.rpc(cmd) },
	}, &cobra.Command{
		Use: "peer", Short: "The other process of bench rpc", Args: wantArgs(0, ""), Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return benchPeer(cmd) },
	}, f.commitCmd(), commitPeerCmd(), f.scaleCmd(), scalePeerCmd(), f.checkCmd(), f.growCmd(), f.figuresCmd())
	return cmd
}

func (f *benchFlags) engine(cmd *cobra.Command) error {
	total := 512 << 20
	if f.quick {
		total = 16 << 20
	}
	return f.measure(cmd, func(told progressFunc) ([]bench.Result, error) {
		return bench.Engine(f.only, f.rounds, total, told)
	})
}

func (f *benchFlags) rpc(cmd *cobra.Command) error {
	n, dur := 20000, time.Second
	if f.quick {
		n, dur = 500, 50*time.Millisecond
	}
	p, stop, err := startPeer(cmd.Context())
	if err != nil {
		return err
	}
	defer stop()
	return f.measure(cmd, func(told progressFunc) ([]bench.Result, error) {
		return bench.RPC(p, f.only, f.rounds, n, dur, told)
	})
}

// progressFunc is told how many rounds are done, and of how many.
type progressFunc = func(done, of int)

// measure runs run, with a profile if requested, and reports the results.
func (f *benchFlags) measure(cmd *cobra.Command, run func(told progressFunc) ([]bench.Result, error)) error {
	if f.rounds < 1 {
		return usagef("--rounds %d: want at least 1", f.rounds)
	}
	done, err := f.profile()
	if err != nil {
		return err
	}
	defer done()
	results, err := run(progress(cmd.ErrOrStderr()))
	return f.report(cmd, results, err)
}

// profile starts the CPU profile, if one was requested.
func (f *benchFlags) profile() (stop func(), err error) {
	if f.prof == "" {
		return func() {}, nil
	}
	out, err := os.Create(f.prof)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(out); err != nil {
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		out.Close()
	}, nil
}

// report prints the results; a missed gate makes exit status 1.
func (f *benchFlags) report(cmd *cobra.Command, results []bench.Result, err error) error {
	if errors.Is(err, bench.ErrNoCase) {
		return usagef("--only: %v", err)
	}
	if err != nil {
		return err
	}
	for i := range results {
		if r := &results[i]; f.goals && r.Goal != 0 {
			r.Gate, r.Goal = r.Goal, 0
		}
	}
	pass := true
	if f.json {
		for i := range results {
			pass = pass && results[i].Pass()
		}
		err = json.NewEncoder(cmd.OutOrStdout()).Encode(results)
	} else {
		pass = bench.Print(cmd.OutOrStdout(), results)
	}
	if err == nil && !pass {
		return fmt.Errorf("a figure misses its gate; a busy machine can cause that: try again, then profile")
	}
	return err
}

// startPeer runs this program a second time, as the other process.
func startPeer(ctx context.Context) (p bench.Peer, stop func(), err error) {
	stop, err = measure.StartPeer(ctx, &p, os.Stderr, "bench", "peer")
	return p, stop, err
}

// benchPeer serves until its standard input ends.
func benchPeer(cmd *cobra.Command) error {
	p, stop, err := bench.ServePeer()
	if err != nil {
		return err
	}
	defer stop()
	return measure.ServePeer(p, cmd.InOrStdin(), cmd.OutOrStdout())
}

// progress shows how far a long run is, on a terminal only.
func progress(w io.Writer) func(done, of int) {
	if f, ok := w.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return func(done, of int) { fmt.Fprintf(w, "\r%3d %%\r", done*100/of) }
}
