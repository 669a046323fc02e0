package pushwrite_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/internal/pushwrite"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
)

// TestRestart: records that are in logs when the server ends are applied before the next one serves;
// sessions and leases of before are over; no lease has the number of an earlier one.
func TestRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	p, c := w.plain(0), w.pusher("log", 0)
	h := p.create("f", 0o644)
	l := c.lease(h)
	write, _ := full(nfs3.ErrNoSpc)
	w.files.fail(write, nil)
	want := ""
	for i := range 100 {
		s := fmt.Sprintf("%03d.", i)
		c.wrote(l, uint64(len(want)), s)
		want += s
	}
	w.stop()
	w.start(nil)
	p.has(h, want)
	if !w.pw.Idle() {
		t.Error("leases are left")
	}
	c.dial(w)
	if again := c.lease(h); again <= l {
		t.Errorf("lease %d, after %d", again, l)
	}
}

// TestRestartBlocked: a record that cannot be applied after the restart either does not keep
// the server from serving, and its file says so.
func TestRestartBlocked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	p, c := w.plain(0), w.pusher("log", 0)
	h, other := p.create("f", 0o644), p.create("g", 0o644)
	write, off := full(nfs3.ErrNoSpc)
	w.files.fail(write, nil)
	c.wrote(c.lease(h), 0, "kept")
	w.restart(func(f *faulty) { f.fail(write, nil) })
	if _, st := p.read(h); st != nfs3.ErrIO {
		t.Error("read:", st)
	}
	p.has(other, "")
	off()
	until(t, "applied", func() bool { _, st := p.read(h); return st == nfs3.OK })
	p.has(h, "kept")
}

// TestNoSecondServer: a directory is one server's.
func TestNoSecondServer(t *testing.T) {
	w := newWorld(t, nil)
	cfg := w.cfg
	if s, err := pushwrite.Open(&cfg); err == nil {
		t.Error("opened twice:", s)
	}
}

// TestLogGone: a log that somebody has removed leaves nothing; one that cannot be read has its
// files say so.
func TestLogGone(t *testing.T) {
	t.Parallel()
	for _, remove := range []bool{true, false} {
		w := newWorld(t, nil)
		p, c := w.plain(0), w.pusher("log", 0)
		h := p.create("f", 0o644)
		write, _ := full(nfs3.ErrNoSpc)
		w.files.fail(write, nil)
		c.wrote(c.lease(h), 0, "kept")
		w.stop()
		path := filepath.Join(w.cfg.Dir, "log.log")
		if remove {
			if err := errors.Join(os.Remove(path), os.Remove(filepath.Join(w.cfg.Dir, "log.owner"))); err != nil {
				t.Fatal(err)
			}
		} else if err := os.Truncate(path, 100); err != nil {
			t.Fatal(err)
		}
		w.start(nil)
		switch _, st := p.read(h); {
		case remove && (st != nfs3.OK || !w.pw.Idle()):
			t.Error("after its removal:", st)
		case !remove && (st != nfs3.ErrIO || len(w.pw.Stats().Now) != 1):
			t.Error("of a damaged log:", st)
		}
	}
}

// TestLockUnopened: a directory whose lock is there and cannot be opened is told so; nobody is asked
// to remove it.
func TestLockUnopened(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "lock"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := pushwrite.Open(&pushwrite.Config{Dir: dir})
	if err == nil || !errors.Is(err, pmem.ErrOpen) || !strings.Contains(err.Error(), "can this user write there?") {
		t.Error(err)
	}
}
