package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stag-rdma/stag/conformance/internal/bench"
)

// checkSuite is a benchmark that bench check runs, as a command of one of the two programs.
type checkSuite struct {
	program string
	args    []string
	parse   func(bench.Figures, []byte) error
}

// checkSuites are the rows of the engine, of calls, and of NFS over RDMA and TCP. On one processor
// where that is possible: it repeats best.
var checkSuites = []checkSuite{
	{"conformance", []string{"bench", "engine", "--rounds", "1", "--json"}, bench.Figures.ParseResults},
	{"conformance", []string{"bench", "rpc", "--rounds", "1", "--json"}, bench.Figures.ParseResults},
	{"nfsdemo", []string{"bench", "nfs", "--rounds", "3", "--length", "100ms", "--procs", "1", "--json"}, bench.Figures.ParseNFS},
}

// checkFlags are the flags of bench check.
type checkFlags struct {
	*benchFlags
	old string
}

// checkCmd is bench check.
func (f *benchFlags) checkCmd() *cobra.Command {
	c := &checkFlags{benchFlags: f}
	cmd := &cobra.Command{
		Use: "check", Short: "Compare this tree with an older revision", Args: wantArgs(0, ""),
		Long: `check builds a revision of this repository in a temporary worktree, and this tree as it
is, and runs the benchmarks of the engine, of calls, and of NFS over RDMA and TCP in turn:
old, new, and old again. A figure fails if the new version loses more than the old one
loses against itself, and then the exit status is 1. An interrupt prints the figures so far.
Run it at the root of a clone.`,
		Example: "  conformance bench check\n  conformance bench check --old HEAD~3 --only WRITE --rounds 15",
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	cmd.Flags().StringVar(&c.old, "old", "", "`revision` to compare with (default: where this branch left origin/main, or the commit before HEAD)")
	return cmd
}

func (c *checkFlags) run(cmd *cobra.Command) (err error) {
	ctx := cmd.Context()
	if c.rounds < 1 {
		return usagef("--rounds %d: want at least 1", c.rounds)
	}
	dir, err := os.MkdirTemp("", "stag-check-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	rev, err := c.revision(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "old: %s\n", rev)
	tree := filepath.Join(dir, "tree")
	if _, err := output(ctx, ".", "git", "worktree", "add", "--detach", tree, strings.Fields(rev)[0]); err != nil {
		return err
	}
	defer func() {
		_, e := output(context.WithoutCancel(ctx), ".", "git", "worktree", "remove", "--force", tree)
		err = errors.Join(err, e)
	}()
	bins := [2]string{filepath.Join(dir, "old"), filepath.Join(dir, "new")}
	for i, from := range [2]string{tree, "."} {
		if _, err := output(ctx, from, "go", "build", "-o", bins[i]+string(filepath.Separator), "./conformance", "./nfsdemo"); err != nil {
			return err
		}
	}
	ps, err := c.measurePairs(ctx, cmd.ErrOrStderr(), bins)
	switch {
	case err != nil && len(ps) == 0:
		return err
	case len(ps) == 0:
		return usagef("--only: %v: %q", bench.ErrNoCase, c.only)
	}
	text := cmd.OutOrStdout()
	if c.json {
		text = io.Discard
		err = errors.Join(err, json.NewEncoder(cmd.OutOrStdout()).Encode(ps))
	}
	if pass := bench.PrintPaired(text, ps); err == nil && !pass {
		return errors.New("a figure is worse than the old version against itself: measure it with more --rounds, then profile it")
	}
	return err
}

// measurePairs runs the rounds. Whether old or new comes first changes from round to round. With an error
// come the figures up to it: half an hour of measuring is not lost to an interrupt.
func (c *checkFlags) measurePairs(ctx context.Context, told io.Writer, bins [2]string) (ps []bench.Paired, err error) {
	start := time.Now()
	for round := range c.rounds {
		if round > 0 {
			gone := time.Since(start)
			fmt.Fprintf(told, "%d of %d rounds, %v left\n", round, c.rounds,
				(gone / time.Duration(round) * time.Duration(c.rounds-round)).Round(time.Second))
		}
		for _, s := range checkSuites {
			var got [3]bench.Figures // old, new, old again
			order := [3]int{0, 1, 2}
			if round%2 == 1 {
				order = [3]int{2, 1, 0}
			}
			for _, k := range order {
				if got[k], err = s.run(ctx, bins[k%2], c.only); err != nil {
					return ps, err
				}
			}
			if round == 0 && len(got[0]) == 0 && len(got[1]) > 0 {
				fmt.Fprintf(told, "the old version has no %s %s\n", s.program, strings.Join(s.args[:2], " "))
			}
			ps = bench.AddRound(ps, slices.Sorted(maps.Keys(got[1])), got[0], got[1], got[2])
		}
	}
	return ps, nil
}

// run runs a suite once. A version that does not have it has no figures.
func (s *checkSuite) run(ctx context.Context, bin, only string) (bench.Figures, error) {
	args := slices.Clone(s.args)
	if only != "" {
		args = append(args, "--only", only)
	}
	if fi, err := os.Stat("/dev/shm"); s.program == "nfsdemo" && err == nil && fi.IsDir() { // no disk's spread
		args = append(args, "--dir", "/dev/shm")
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin, s.program), args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	f := bench.Figures{}
	exit, failed := errors.AsType[*exec.ExitError](err)
	switch {
	case failed && exit.ExitCode() == 2: // of usage: no such command, or no such row
		return f, nil
	case err != nil && out.Len() == 0:
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(errs.Bytes()))
	}
	return f, s.parse(f, out.Bytes()) // status 1 with figures: one missed its gate, which is not the question
}

// revision returns the old revision, and its subject.
func (c *checkFlags) revision(ctx context.Context) (string, error) {
	show := func(rev string) (string, error) { return output(ctx, ".", "git", "log", "-1", "--format=%h %s", rev) }
	if c.old != "" {
		return show(c.old)
	}
	head, err := output(ctx, ".", "git", "rev-parse", "HEAD")
	if err != nil {
		return "", err
	}
	if base, err := output(ctx, ".", "git", "merge-base", "HEAD", "origin/main"); err == nil && base != head {
		return show(base)
	}
	if changed, err := output(ctx, ".", "git", "status", "--porcelain", "--untracked-files=no"); err == nil && changed != "" {
		return show("HEAD")
	}
	return show("HEAD~1")
}

// output runs a command in dir and returns what it prints.
func output(ctx context.Context, dir string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(errs.Bytes()))
	}
	return strings.TrimSpace(string(out)), nil
}
