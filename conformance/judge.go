package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/conformance/internal/page"
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

// file judges one capture and writes the other files that were requested. The error is about those files:
// errors of the capture are in the verdict.
func (f *judgeFlags) file(cmd *cobra.Command, name string) (*verdict, error) {
	expected, err := f.expectation()
	if err != nil {
		return nil, err
	}
	in, err := f.open(cmd, name)
	if err != nil {
		return &verdict{name: name, report: new(judge.Report), err: err}, nil
	}
	defer in.Close()
	v, drawn := f.judge(in, name)
	if f.html != "" {
		if err := create(f.html, func(w io.Writer) error { return drawn.Write(w, v.report) }); err != nil {
			return nil, err
		}
	}
	if f.annotate != "" {
		if err := f.comment(in, v.report); err != nil {
			return nil, err
		}
	}
	if expected != nil {
		v.diff = expected.Diff(v.report)
	}
	return v, nil
}

// apart refuses to overwrite an input: a capture may not be reproducible. Names are compared by the files to
// which they lead.
func (f *judgeFlags) apart(capture string) error {
	for _, out := range []struct{ flag, name string }{{"annotate", f.annotate}, {"html", f.html}} {
		for _, in := range []struct{ what, name string }{{"the capture", capture}, {"the file of --expect", f.expect}} {
			if sameFile(out.name, in.name) {
				return usagef("--%s %s is %s: name another file", out.flag, out.name, in.what)
			}
		}
	}
	if f.annotate != "" && filepath.Clean(f.annotate) == filepath.Clean(f.html) {
		return usagef("--annotate and --html are both %s: name two files", f.html)
	}
	return nil
}

// sameFile reports whether both names lead to the same file, which exists and is no device.
func sameFile(a, b string) bool {
	x, errA := os.Stat(a)
	y, errB := os.Stat(b)
	return errA == nil && errB == nil && x.Mode().IsRegular() && os.SameFile(x, y)
}

// expectation reads the file of --expect; it returns nil without one.
func (f *judgeFlags) expectation() (*judge.Expect, error) {
	if f.expect == "" {
		return nil, nil
	}
	in, err := os.Open(f.expect)
	if err != nil {
		return nil, unreadable(f.expect, err)
	}
	defer in.Close()
	e, err := judge.ParseExpect(in)
	if err != nil {
		return nil, &exitError{exitUsage, f.expect + ": " + err.Error()}
	}
	return e, nil
}

// open opens a capture. Standard input that must be read twice is kept in a temporary file.
func (f *judgeFlags) open(cmd *cobra.Command, name string) (io.ReadCloser, error) {
	if name != "-" {
		in, err := os.Open(name)
		if err != nil {
			return nil, errors.Unwrap(err) // the caller names the file
		}
		return in, nil
	}
	if f.annotate == "" {
		return io.NopCloser(cmd.InOrStdin()), nil
	}
	tmp, err := os.CreateTemp("", "stag-judge-*.pcap")
	if err != nil {
		return nil, err
	}
	defer os.Remove(tmp.Name()) // it lives until it is closed
	if _, err := io.Copy(tmp, cmd.InOrStdin()); err != nil {
		tmp.Close()
		return nil, err
	}
	if _, err := tmp.Seek(0, io.SeekStart); err != nil {
		tmp.Close()
		return nil, err
	}
	return tmp, nil
}

// judge reads a capture; the page is nil if none was requested.
func (f *judgeFlags) judge(r io.Reader, name string) (*verdict, *page.Builder) {
	var drawn *page.Builder
	if f.html != "" {
		drawn = page.New(name, nil)
	}
	b := judge.NewBuilder(&judge.Options{MaxViolations: f.limit})
	c := decode.NewCapture(nil, func(ev *decode.Event) {
		b.Event(ev)
		if drawn != nil {
			drawn.Event(ev)
		}
	})
	v := &verdict{name: name}
	for pkt, err := range decode.Packets(r) {
		if v.err = err; err != nil {
			break
		}
		c.Packet(&pkt)
	}
	c.Finish()
	v.report = b.Report()
	v.report.Stats = c.Stats
	return v, drawn
}

// comment copies the capture and adds the violations as comments.
func (f *judgeFlags) comment(in io.ReadCloser, rep *judge.Report) error {
	file, ok := in.(*os.File)
	if !ok {
		return usagef("--annotate: the capture cannot be read a second time")
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	byFrame := make(map[int][]string)
	for _, v := range rep.Violations {
		r := v.Rule
		byFrame[v.Frame] = append(byFrame[v.Frame], r.ID+" "+r.Level.String()+" ("+r.Source+"): "+v.Detail)
	}
	return create(f.annotate, func(w io.Writer) error {
		return page.Copy(w, file, func(frame int) []string { return byFrame[frame] })
	})
}

// create writes a file. What was written before an error stays: it is all there is of a damaged capture.
func create(name string, write func(io.Writer) error) error {
	out, err := os.Create(name)
	if err != nil {
		return unreadable(name, err)
	}
	err = write(out)
	if e := out.Close(); err == nil {
		err = e
	}
	if err != nil {
		return unreadable(name, err)
	}
	return nil
}
