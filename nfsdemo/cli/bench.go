package cli

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/internal/measure"
	"github.com/stag-rdma/stag/nfsdemo/internal/bench"
)

// benchFlags are the flags of bench push.
type benchFlags struct {
	opt   bench.Options
	dir   string
	plot  string
	quick bool
}

// benchCmd is the command bench.
func (a *app) benchCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "bench",
		Short:   "Measure NFS over RDMA, and durable writes",
		Example: "  nfsdemo bench nfs --quick\n  nfsdemo bench push --quick",
		Args:    unknownCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := &benchFlags{}
	run := &cobra.Command{
		Use:   "push",
		Short: "Durable writes by push, against WRITE with FILE_SYNC",
		Long: `push starts a server in another process and makes 4 KiB at a time durable there: by
push, an append to a commit log that the server applies to the file in the background,
and by WRITE with FILE_SYNC, pulled by an RDMA Read or sent inline. The two sides
alternate round by round, with files on the same file system. It prints medians, with the
smallest and the largest ratio, and exits 1 when a gate is missed. Other programs on the
machine distort the figures: run it alone.

"sim" uses no disk: files are in memory, logs in a model of persistent memory.`,
		Example: `  nfsdemo bench push
  nfsdemo bench push --dir /srv/data --rounds 15
  nfsdemo bench push --json | jq -r '.[] | [.name, .gate] | @tsv'
  nfsdemo bench push --plot push.svg`,
		Args: nArgs(0, 0, "no arguments, only flags"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.bench(cmd, f) },
	}
	flags := run.Flags()
	flags.StringVar(&f.dir, "dir", os.TempDir(), "`directory` on the file system to measure")
	flags.IntVar(&f.opt.Rounds, "rounds", 9, "rounds of each case")
	flags.StringVar(&f.opt.Only, "only", "", "run only the cases whose name contains this `text`")
	flags.BoolVar(&f.quick, "quick", false, "short rounds, to check that it runs")
	flags.BoolVar(&a.json, "json", false, "print all figures of all rounds as JSON")
	flags.StringVar(&f.plot, "plot", "", "instead, plot latency against size into this `file` (SVG)")
	cmd.AddCommand(run, a.benchPeerCmd(), a.benchNFSCmd(), a.benchNFSPeerCmd())
	return cmd
}

func (a *app) bench(cmd *cobra.Command, f *benchFlags) (err error) {
	if f.opt.Rounds < 1 {
		return usagef("--rounds %d: want at least 1", f.opt.Rounds)
	}
	if f.quick {
		f.opt.Writes, f.opt.Rate = 100, 50*time.Millisecond
	}
	if err := plotDir(f.plot); err != nil {
		return err
	}
	dir, remove, err := measure.Scratch(f.dir, "nfsdemo-bench-")
	if err != nil {
		return fmt.Errorf("--dir %s: %w", f.dir, bare(err))
	}
	defer func() { err = errors.Join(err, remove()) }()
	var p bench.Peer
	stop, err := measure.StartPeer(cmd.Context(), &p, a.stderr, "bench", "push-peer", dir)
	if err != nil {
		return err
	}
	defer stop()
	f.opt.Progress = a.benchProgress()
	if f.plot != "" {
		c, err := measure.Until(cmd.Context(), func() (*measure.Chart, error) { return bench.Plot(p, &f.opt) })
		if err != nil {
			return err
		}
		return os.WriteFile(f.plot, []byte(c.SVG()), 0o644)
	}
	results, err := measure.Until(cmd.Context(), func() ([]measure.Result, error) { return bench.Push(p, &f.opt) })
	if errors.Is(err, measure.ErrNoCase) {
		return usagef("--only: %v", err)
	}
	if err != nil {
		return err
	}
	return a.benchReport(results)
}

// benchReport prints the results; a missed gate is exit status 1.
func (a *app) benchReport(results []measure.Result) error {
	pass := true
	if a.json {
		for i := range results {
			pass = pass && results[i].Pass()
		}
		if err := a.printJSON(results); err != nil {
			return err
		}
	} else {
		pass = measure.Print(a.stdout, results)
	}
	if !pass {
		return errors.New("a figure missed its gate; a busy machine can cause that too: try again on a quiet one")
	}
	return nil
}

// benchProgress shows the progress of a long run, on a terminal only.
func (a *app) benchProgress() func(done, of int) {
	if a.quiet || !isTerminal(a.stderr) {
		return nil
	}
	return func(done, of int) { fmt.Fprintf(a.stderr, "\r%3d %%\r", done*100/of) }
}

// benchPeerCmd is the server of bench push.
func (a *app) benchPeerCmd() *cobra.Command {
	return &cobra.Command{
		Use: "push-peer DIR", Short: "The server of bench push", Args: nArgs(1, 1, "a directory"), Hidden: true,
		RunE: func(_ *cobra.Command, args []string) (err error) {
			spareProcs()
			p, stop, err := bench.Serve(args[0])
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, stop()) }()
			return measure.ServePeer(&p, a.stdin, a.stdout)
		},
	}
}
