package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/conformance/internal/page"
)

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
	bar := newMeter(cmd.ErrOrStderr(), name, in)
	v, drawn := f.judge(bar.reader(in), name)
	bar.end()
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
