package judge

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/stag-rdma/stag/conformance/internal/judge"
)

// TB is what [Check] needs of a testing.TB.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
}

// Check judges the capture in a file, in a test, which may be that of another project whose peers have
// recorded what they sent.
//
//	func TestTraffic(t *testing.T) {
//		judge.Check(t, record(t)) // the name of a pcap or pcapng file
//	}
//
// Every violation fails the test; notes do not. A capture of which nothing can be judged fails it too. If there
// is a file beside the capture with the same name and the extension ".expect", exactly the violations in that
// file must be found. It has one line per rule and connection, with the number of violations; the text after #
// says why:
//
//	RPCRDMA-073 1 3   # knfsd invalidates although its R flag is 0
//
// For captures that differ each time, "RPCRDMA-073 * *" allows any number, including none, in any
// connection.
//
// The capture of a test that has failed is copied to its ArtifactDir, which go test -artifacts keeps.
func Check(t TB, capture string) {
	t.Helper()
	if k, ok := t.(interface {
		Failed() bool
		ArtifactDir() string
	}); ok {
		defer func() {
			if !k.Failed() {
				return
			}
			b, err := os.ReadFile(capture)
			if err == nil {
				err = os.WriteFile(filepath.Join(k.ArtifactDir(), filepath.Base(capture)), b, 0o600)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("judge: the capture is not kept: %v", err)
			}
		}()
	}
	r, err := openFile(capture)
	if err != nil {
		t.Errorf("judge: %v", err)
		return
	}
	if r.Judged() == 0 {
		t.Errorf("judge: %s: nothing was judged: %s", capture, strings.Join(r.Reasons(), "; "))
		return
	}
	e, err := expectBeside(capture)
	switch {
	case err != nil:
		t.Errorf("judge: %v", err)
	case e != nil:
		for _, line := range e.Diff(r) {
			t.Errorf("judge: %s: %s", capture, line)
		}
	default:
		complain(t, capture, r)
	}
}

// openFile judges a file.
func openFile(name string) (*judge.Report, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := judge.File(f, nil)
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return r, err
}

// expectBeside reads the expectation of a capture; nil if there is none.
func expectBeside(capture string) (*judge.Expect, error) {
	name := strings.TrimSuffix(capture, filepath.Ext(capture)) + ".expect"
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	e, err := judge.ParseExpect(f)
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return e, err
}

// complain reports all violations that are more than notes.
func complain(t TB, capture string, r *judge.Report) {
	t.Helper()
	for _, v := range r.Violations {
		if v.Rule.Severity != judge.Note {
			t.Errorf("judge: %s: %v\n\t%s (%s): %s", capture, v, v.Rule.Source, v.Rule.Level, v.Rule.Text)
		}
	}
}
