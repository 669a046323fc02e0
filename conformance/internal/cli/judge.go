package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/stag-rdma/stag/conformance/internal/judge"
)

// judgeFlags are the flags of judge.
type judgeFlags struct {
	json, all              bool
	limit                  int
	annotate, html, expect string
	explain                string
}

func judgeCmd() *cobra.Command {
	var f judgeFlags
	cmd := &cobra.Command{
		Use:   "judge FILE...",
		Short: "Print which rules of the RFCs a capture breaks",
		Long: `judge reads pcap and pcapng files, also compressed by gzip (- is standard input), and judges every iWARP
connection in them, on any port: MPA, DDP, RDMAP, RPC-over-RDMA, RPC, NFS, commit
sessions. For each connection it prints what it was, which rules were broken, by
which packet (> from the side that opened the connection), and what cannot be
judged from the capture. docs/judge.md is the guide.

List the rules that a peer is known to break in a file beside the capture,
with the reasons; --expect demands exactly these violations.

Exit status: 0 clean (notes do not count), or --expect is met; 1 a rule is broken,
or --expect is not met; 2 a file cannot be read or is damaged, or a bad command
line; 4 inconclusive: no rule is known to be broken, but not all could be judged.
Of several captures the worst counts: 2, then 1, then 4.`,
		Example: `  conformance judge trace.pcap
  conformance judge --html trace.html --annotate trace-judged.pcapng trace.pcap
  conformance judge --json *.pcap | jq '.captures[].violations[] | select(.rule == "DDP-005")'
  conformance judge --expect trace.expect trace.pcap
  conformance judge --explain DDP-005
  tcpdump -i lo -w - port 20049 | conformance judge -`,
		Args: func(cmd *cobra.Command, args []string) error { return f.check(cmd, args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.explain != "" {
				return explain(cmd.OutOrStdout(), f.explain)
			}
			return f.run(cmd, args)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.json, "json", false, "print one JSON document (docs/conformance.md)")
	flags.BoolVar(&f.all, "all", false, "print every violation that is kept, not only ten of a kind")
	flags.IntVar(&f.limit, "limit", 100, "keep `N` violations of each rule on each connection, and count the others")
	flags.StringVar(&f.annotate, "annotate", "", "copy the capture to `OUT.pcapng`, with the violations as packet comments")
	flags.StringVar(&f.html, "html", "", "draw the capture as a page in `OUT.html`")
	flags.StringVar(&f.expect, "expect", "", "compare with `FILE`: lines with rule, connection and count; # begins a comment")
	flags.StringVar(&f.explain, "explain", "", "print what `RULE` demands, and its source, and stop; all lists the rules")
	return cmd
}

// check checks the command line.
func (f *judgeFlags) check(cmd *cobra.Command, args []string) error {
	switch {
	case f.explain != "" && len(args) > 0:
		return usagef("--explain wants no file, got %q", args[0])
	case f.explain != "":
		return nil
	case len(args) == 0:
		return usagef("%s wants at least one file: see %s --help", below(cmd), cmd.CommandPath())
	case f.limit < 1:
		return usagef("--limit %d: want 1 or more", f.limit)
	}
	for name, v := range map[string]string{"annotate": f.annotate, "html": f.html, "expect": f.expect} {
		if v != "" && len(args) > 1 {
			return usagef("--%s is about one capture, got %d", name, len(args))
		}
	}
	return f.apart(args[0])
}

// verdict is the result for one capture. err says why it could not be read to its end; the report is about
// what was read before.
type verdict struct {
	name   string
	report *judge.Report
	err    error
	diff   []string // differences from what was expected
}

// status returns the exit status for the capture.
func (v *verdict) status(expected bool) int {
	switch {
	case v.err != nil:
		return exitUsage
	case expected && len(v.diff) > 0:
		return exitFailed
	case expected && v.report.Judged() > 0: // an expectation names what is known of a capture, its gaps too
		return exitOK
	}
	return map[judge.Verdict]int{judge.Clean: exitOK, judge.Violations: exitFailed, judge.Inconclusive: exitUnsure}[v.report.Verdict()]
}

func (f *judgeFlags) run(cmd *cobra.Command, files []string) error {
	var all []*verdict
	for _, name := range files {
		v, err := f.file(cmd, name)
		if err != nil {
			return err
		}
		all = append(all, v)
		if !f.json {
			if err := f.text(cmd.OutOrStdout(), v, len(files) > 1); err != nil {
				return err
			}
		}
	}
	if f.json {
		if err := writeJSON(cmd.OutOrStdout(), all); err != nil {
			return err
		}
	}
	return f.status(cmd.ErrOrStderr(), all)
}

// status prints what could not be read, and returns the exit status: that of the worst capture.
func (f *judgeFlags) status(stderr io.Writer, all []*verdict) error {
	seen := make(map[int]bool)
	for _, v := range all {
		if v.err != nil {
			fmt.Fprintf(stderr, "conformance: %s: %v\n", v.name, v.err)
		}
		seen[v.status(f.expect != "")] = true
	}
	for _, status := range []int{exitUsage, exitFailed, exitUnsure} {
		if seen[status] {
			return &exitError{status: status}
		}
	}
	return nil
}

// unreadable is an error of a file that is not the capture, with exit status 2.
func unreadable(name string, err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		err = inner // the name is said already
	}
	return &exitError{exitUsage, fmt.Sprintf("%s: %v", name, err)}
}
