package pushwrite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/internal/lease"
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
	if s, err := Open(&cfg); err == nil {
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

// TestRewrite: the file of the leases does not grow forever, and forgets nothing when it is written anew.
func TestRewrite(t *testing.T) {
	dir := t.TempDir()
	s, _, err := openStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	live := []stored{{ID: 1, Log: "log"}}
	last := lease.ID(1)
	s.snapshot = func() ([]stored, lease.ID) { return live, last }
	s.least = 16 << 10
	if err := errors.Join(s.renew(), s.grant(&live[0])); err != nil {
		t.Fatal(err)
	}
	for range 200 { // several laps
		last++
		e := stored{ID: last, Log: "log"}
		live = append(live[:1], e)
		if err := s.grant(&e); err != nil {
			t.Fatal(err)
		}
		s.end([]lease.ID{last})
		live = live[:1]
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	fi, err := os.Stat(s.path)
	if err != nil || fi.Size() > 64<<10 {
		t.Error(fi.Size(), err)
	}
	l, err := readStore(s.path)
	if err != nil || len(l.live) != 1 || l.live[0].ID != 1 || l.last != last {
		t.Errorf("%+v %v", l, err)
	}
}

// TestLockUnopened: a directory whose lock is there and cannot be opened is told so; nobody is asked
// to remove it.
func TestLockUnopened(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, lockName), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := Open(&Config{Dir: dir})
	if err == nil || !errors.Is(err, pmem.ErrOpen) || !strings.Contains(err.Error(), "can this user write there?") {
		t.Error(err)
	}
}
