package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/stag-rdma/stag/conformance/bench"
)

// checkTries is how often a worse figure is measured: a busy machine can cause it.
const checkTries = 3

// checkCmd is bench check.
func (f *benchFlags) checkCmd() *cobra.Command {
	var record string
	cmd := &cobra.Command{
		Use: "check", Short: "Compare with the ratios of an earlier run", Args: wantArgs(0, ""),
		Long: `check runs the benchmarks of engine, rpc and scale, in a few rounds, and compares the
ratios with a table that is kept with the program. A ratio that is worse by more than
the tolerance in the table is measured again, up to twice; the exit status is 1 if it
stays worse. With --record the table is written instead.`,
		Example: `  conformance bench check
  conformance bench check --record conformance/bench/base.json`,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.check(cmd, record) },
	}
	cmd.Flags().StringVar(&record, "record", "", "write the table to `FILE`")
	return cmd
}

func (f *benchFlags) check(cmd *cobra.Command, record string) error {
	table, err := bench.Base()
	if err != nil {
		return err
	}
	var results []bench.Result
	for _, suite := range []func(ctx context.Context, only string) ([]bench.Result, error){checkEngine, checkRPC, checkScale} {
		rs, err := suite(cmd.Context(), f.only)
		if err != nil && !errors.Is(err, bench.ErrNoCase) { // another suite may have one
			return err
		}
		for i := range rs {
			for try := 1; record == "" && try < checkTries && table.Worse(&rs[i]) > table.Tolerance; try++ {
				if rs[i], err = better(cmd.Context(), &table, rs[i], suite); err != nil {
					return err
				}
			}
		}
		results = append(results, rs...)
	}
	if len(results) == 0 {
		return usagef("--only: %v: %q", bench.ErrNoCase, f.only)
	}
	if record != "" {
		table.Record(results)
		b, err := json.MarshalIndent(table, "", "  ")
		if err != nil {
			return err
		}
		return os.WriteFile(record, append(b, '\n'), 0o644)
	}
	text := cmd.OutOrStdout()
	if f.json {
		text = io.Discard
		err = json.NewEncoder(cmd.OutOrStdout()).Encode(results)
	}
	if pass := table.Compare(text, results); err == nil && !pass {
		return errors.New("a figure is worse than it was: profile it (--cpuprofile), or record a new table (--record)")
	}
	return err
}

// better measures r once more and returns the better of the two.
func better(ctx context.Context, table *bench.Table, r bench.Result, suite func(ctx context.Context, only string) ([]bench.Result, error)) (bench.Result, error) {
	again, err := suite(ctx, r.Name)
	for i := range again {
		if again[i].Name == r.Name && table.Worse(&again[i]) < table.Worse(&r) {
			r = again[i]
		}
	}
	return r, err
}

func checkEngine(_ context.Context, only string) ([]bench.Result, error) {
	return bench.Engine(only, 5, 512<<20, nil)
}

func checkRPC(ctx context.Context, only string) ([]bench.Result, error) {
	p, stop, err := startPeer(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	return bench.RPC(p, only, 3, 10000, 500*time.Millisecond, nil)
}

func checkScale(ctx context.Context, only string) ([]bench.Result, error) {
	p, stop, err := startScalePeer(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	return bench.Scale(p, only, 1, false, nil)
}
