package pushwrite_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/internal/pushwrite"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
)

// inspected returns what Inspect finds, a line per record.
func inspected(t *testing.T, dir string) (lines []string) {
	t.Helper()
	if err := pushwrite.Inspect(dir, pmem.File, func(w *pushwrite.Waiting) error {
		lines = append(lines, fmt.Sprintf("%s %d: lease %d, %d at %d, %v %v", w.Log, w.Record, w.Lease, w.Octets, w.Offset, w.File != nil, w.Void))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return lines
}

// TestDiscard: a log whose first record can never be applied is found, and continues once that
// lease has been discarded: acknowledged records of other files are applied.
func TestDiscard(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	p, c := w.plain(0), w.pusher("log", 0)
	gone, kept := p.create("gone", 0o644), p.create("kept", 0o644)
	l, m := c.lease(gone), c.lease(kept)
	if err := w.fs.Root().Remove("gone"); err != nil {
		t.Fatal(err)
	}
	c.wrote(l, 0, "one")
	c.wrote(m, 0, "two")
	c.wrote(l, 7, "three")
	if st := p.commit(kept); st != nfs3.ErrStale {
		t.Fatal("commit of the file after it:", st)
	}
	if err := pushwrite.Discard(w.cfg.Dir, l); !errors.Is(err, pmem.ErrLocked) {
		t.Error("while the server runs:", err)
	}
	w.stop()
	want := []string{
		fmt.Sprintf("log 1: lease %d, 3 at 0, true false", l),
		fmt.Sprintf("log 2: lease %d, 3 at 0, true false", m),
		fmt.Sprintf("log 3: lease %d, 5 at 7, true false", l),
	}
	if got := inspected(t, w.cfg.Dir); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Error(got)
	}
	if err := pushwrite.Discard(w.cfg.Dir, m+1); !errors.Is(err, pushwrite.ErrNoLease) {
		t.Error("a lease that never existed:", err)
	}
	if err := pushwrite.Discard(w.cfg.Dir, l); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a server that ends before it has applied anything writes the leases anew
		if err := pushwrite.OpenAndClose(w.cfg.Dir); err != nil {
			t.Fatal(err)
		}
	}
	if got := inspected(t, w.cfg.Dir); len(got) != 3 || !strings.HasSuffix(got[0], "true true") || !strings.HasSuffix(got[1], "true false") {
		t.Error(got)
	}
	w.start(nil)
	p.has(kept, "two")
	if st := w.pw.Stats(); len(st.Now) > 0 || st.Records != 3 || st.Discarded != 2 || !w.pw.Idle() {
		t.Errorf("%+v", st)
	}
	c.dial(w)
	c.wrote(c.lease(kept), 3, "four")
	p.has(kept, "twofour")
}

// TestInspect: a log that cannot be read does not keep the others from being shown.
func TestInspect(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	p := w.plain(0)
	write, _ := full(nfs3.ErrNoSpc)
	w.files.fail(write, nil)
	a, b := w.pusher("a", 0), w.pusher("b", 0)
	a.wrote(a.lease(p.create("f", 0o644)), 0, "x")
	if _, err := a.s.Append(t.Context(), []byte("no record")); err != nil {
		t.Fatal(err)
	}
	b.wrote(b.lease(p.create("g", 0o644)), 0, "y")
	b.wrote(1, 0, "of another log")
	w.stop()
	n := 0
	err := pushwrite.Inspect(w.cfg.Dir, pmem.File, func(w *pushwrite.Waiting) error { n++; return nil })
	if n != 3 || err == nil || !strings.Contains(err.Error(), `load "a": record 2`) {
		t.Error(n, err)
	}
	mine := errors.New("mine")
	if err := pushwrite.Inspect(w.cfg.Dir, pmem.File, func(*pushwrite.Waiting) error { return mine }); !errors.Is(err, mine) || strings.Contains(err.Error(), "load") {
		t.Error(err)
	}
	for _, err := range []error{pushwrite.Inspect(t.TempDir(), pmem.File, nil), pushwrite.Discard(t.TempDir(), 1)} {
		if !errors.Is(err, pushwrite.ErrNoLogs) {
			t.Error(err)
		}
	}
}
