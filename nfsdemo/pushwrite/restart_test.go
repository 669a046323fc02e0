package pushwrite

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/lease"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
)

// TestRestart: what logs hold when the server ends is applied before the next one serves;
// sessions and leases of before are over; no lease has the number of an earlier one.
func TestRestart(t *testing.T) {
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
	c.dial(w, &c.secret)
	if again := c.lease(h); again <= l {
		t.Errorf("lease %d, after %d", again, l)
	}
}

// TestRestartBlocked: a record that cannot be applied after the restart either does not keep
// the server from serving, and its file says so.
func TestRestartBlocked(t *testing.T) {
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

// TestStore: leases are kept across restarts until they are over; what a crash cuts off
// anywhere leaves those before it; damage in front of the end is told.
func TestStore(t *testing.T) {
	dir := t.TempDir()
	s, live, last, err := openStore(dir)
	if err != nil || len(live) != 0 || last != 0 {
		t.Fatal(live, last, err)
	}
	entry := func(id lease.ID) stored {
		return stored{ID: id, Log: "log", Grant: server.Grant{
			File: nfs3.FileHandle{1, 2, 3, 4, byte(id)}, Cred: server.Cred{UID: 7, GID: 8, GIDs: []uint32{9, 10}},
		}}
	}
	var ends []int
	for id := range lease.ID(3) {
		e := entry(id + 1)
		if err := s.grant(&e); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, s.size)
	}
	s.over([]lease.ID{2})
	b, err := os.ReadFile(s.path)
	if err := errors.Join(err, s.close()); err != nil {
		t.Fatal(err)
	}
	ids := func(live []stored) (s string) {
		for _, e := range live {
			s += fmt.Sprint(e.ID)
			if w := entry(e.ID); !bytes.Equal(e.Grant.File, w.Grant.File) || fmt.Sprint(e) != fmt.Sprint(w) {
				t.Errorf("%+v, want %+v", e, w)
			}
		}
		return s
	}
	for n := len(storeMagic); n <= len(b); n++ {
		live, last, err := parseStore(b[:n])
		want := "123"
		switch {
		case n == len(b):
			want = "13"
		case n < ends[0]:
			want = ""
		case n < ends[1]:
			want = "1"
		case n < ends[2]:
			want = "12"
		}
		if err != nil || ids(live) != want || int(last) != len(want) && n < len(b) {
			t.Fatalf("cut at %d of %d: %q up to %d, %v; want %q", n, len(b), ids(live), last, err, want)
		}
	}
	for zeros := range 50 { // room that a file system had given, and not written
		tail := append(bytes.Clone(b[:ends[2]]), make([]byte, zeros)...)
		if live, _, err := parseStore(tail); err != nil || ids(live) != "123" {
			t.Errorf("%d zeros: %q, %v", zeros, ids(live), err)
		}
		tail = append(bytes.Clone(b[:len(b)-3]), make([]byte, zeros)...) // of an entry that was begun
		if live, _, err := parseStore(tail); err != nil || ids(live) != "123" && ids(live) != "13" {
			t.Errorf("torn, %d zeros: %q, %v", zeros, ids(live), err)
		}
	}
	bad := bytes.Clone(b)
	bad[ends[0]-1] ^= 1
	if _, _, err := parseStore(bad); !errors.Is(err, ErrStore) {
		t.Error("damaged:", err)
	}
	if err := os.WriteFile(s.path, bad, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := openStore(dir); !errors.Is(err, ErrStore) {
		t.Error("damaged:", err)
	}
}

// TestRewrite: the file of the leases does not grow for ever.
func TestRewrite(t *testing.T) {
	s, _, _, err := openStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	e := stored{ID: 5, Log: "log"}
	if err := s.grant(&e); err != nil {
		t.Fatal(err)
	}
	before := s.size
	s.over([]lease.ID{5})
	if err := s.rewrite(func() ([]stored, lease.ID) { return nil, 9 }); err != nil || s.size >= before {
		t.Error(s.size, err)
	}
	e.ID = 10
	if err := s.grant(&e); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(s.path)
	live, last, perr := parseStore(b)
	if err := errors.Join(err, perr); err != nil || len(live) != 1 || last != 10 {
		t.Error(live, last, err)
	}
}
