package pushwrite

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/internal/lease"
	"github.com/stag-rdma/stag/nfsdemo/internal/pushfile"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport/commitlog/crashtest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// aLease is a lease as it is kept; its handle tells it from others.
func aLease(id lease.ID) stored {
	return stored{ID: id, Log: "log", Grant: server.Grant{
		File: nfs3.FileHandle{1, 2, 3, 4, byte(id)}, Cred: server.Cred{UID: 7, GID: 8, GIDs: []uint32{9, 10}},
	}}
}

// numbers returns the numbers of leases, each of which must be as it was stored.
func numbers(t *testing.T, l *leases) (s string) {
	t.Helper()
	for _, e := range l.live {
		s += fmt.Sprint(e.ID)
		if w := aLease(e.ID); fmt.Sprint(e) != fmt.Sprint(w) {
			t.Errorf("%+v, want %+v", e, w)
		}
	}
	return s
}

// written is the file of a store that has lived: three grants, the second one over, what is behind
// the last sync included; and where each grant ends that was told.
func written(t *testing.T, before ...stored) (b []byte, ends []int) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, storeName), appendStore(before, 0), 0o600); err != nil {
		t.Fatal(err)
	}
	s, _, err := openStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	for id := range lease.ID(3) {
		e := aLease(id + 1)
		if err := s.grant(&e); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, s.size)
		if id == 1 {
			s.end([]lease.ID{2})
		}
	}
	ends[2] -= overLen
	b, err = os.ReadFile(s.path)
	if err := errors.Join(err, s.close()); err != nil {
		t.Fatal(err)
	}
	return b, ends
}

// TestStoreCut: whatever a crash cuts off, or leaves as zeros, the leases before it are there;
// none that was in what was cut is granted again.
func TestStoreCut(t *testing.T) {
	b, ends := written(t)
	for n := len(storeMagic); n <= len(b); n++ {
		want := ""
		for i, end := range ends {
			if n >= end {
				want += fmt.Sprint(i + 1)
			}
		}
		for zeros := range 3 {
			l, err := parseStore(append(bytes.Clone(b[:n]), make([]byte, 20*zeros)...))
			if err != nil {
				t.Fatalf("cut at %d of %d, %d zeros: %v", n, len(b), zeros, err)
			}
			if got := numbers(t, l); got != want && got != want+fmt.Sprint(len(want)+1) && got != "13" {
				t.Fatalf("cut at %d of %d, %d zeros: %q, want %q", n, len(b), zeros, got, want)
			}
			if l.torn > 0 && l.last <= lease.ID(len(want)) {
				t.Fatalf("cut at %d of %d: lease %d would be granted again", n, len(b), l.last+1)
			}
		}
	}
	if l, err := parseStore(b); err != nil || numbers(t, l) != "13" || l.torn+l.mended != 0 {
		t.Errorf("whole: %+v %v", l, err)
	}
}

// TestStoreDamage: one bit that is wrong, anywhere, loses no lease: also not the last one, which
// looks like one that was never told. Without its begin the file is refused. What cannot be read,
// in both copies, is refused if anything behind it was synced.
func TestStoreDamage(t *testing.T) {
	b, ends := written(t, aLease(9))
	for bit := range 8 * len(b) {
		bad := bytes.Clone(b)
		bad[bit/8] ^= 1 << (bit % 8)
		l, err := parseStore(bad)
		switch {
		case bit < 8*len(storeMagic):
			if !errors.Is(err, ErrStore) {
				t.Fatalf("bit %d: %v", bit, err)
			}
		case err != nil:
			t.Fatalf("bit %d: %v", bit, err)
		case numbers(t, l) != "139" || l.mended != 1 || l.torn != 0:
			t.Fatalf("bit %d: %+v", bit, l)
		}
	}
	_, _, n, _ := parsePair(b[len(storeMagic):], false)
	anew := appendStore([]stored{aLease(1), aLease(2)}, 2)
	anew[len(storeMagic)+n+9] ^= 1
	anew[len(storeMagic)+n+n/2+9] ^= 1
	if _, err := parseStore(anew); !errors.Is(err, ErrStore) {
		t.Error("the last lease of a file that was written anew:", err)
	}
	for i, first := range []int{len(storeMagic), ends[0], ends[1]} { // of pairs
		bad := bytes.Clone(b)
		bad[first+9] ^= 1
		bad[first+n/2+9] ^= 1
		l, err := parseStore(bad)
		if last := i == 2; last && (err != nil || l.torn == 0 || numbers(t, l) != "129") || !last && !errors.Is(err, ErrStore) {
			t.Errorf("both copies at %d: %+v %v", first, l, err)
		}
	}
}

// TestStoreOld: a file of the version before is read; damage in front of a grant is told.
func TestStoreOld(t *testing.T) {
	b := []byte(storeMagicOld)
	var ends []int
	for id := range lease.ID(3) {
		e := aLease(id + 1)
		pair := appendEntry(nil, entryGrant, &e)
		b = append(b, pair[:len(pair)/2]...)
		ends = append(ends, len(b))
	}
	if l, err := parseStore(b); err != nil || numbers(t, l) != "123" {
		t.Errorf("%+v %v", l, err)
	}
	if l, err := parseStore(b[:len(b)-1]); err != nil || numbers(t, l) != "12" || l.torn == 0 {
		t.Errorf("torn: %+v %v", l, err)
	}
	b[ends[0]-1] ^= 1
	if _, err := parseStore(b); !errors.Is(err, ErrStore) {
		t.Error(err)
	}
}

// simFile is a storeFile in memory that can be crashed.
type simFile struct {
	mem  *pmem.Sim
	size int
}

func (f *simFile) Write(p []byte) (int, error) {
	off := f.size
	f.size += len(p)
	return len(p), f.mem.Store(off, p)
}
func (f *simFile) Sync() error  { return f.mem.Persist(0, f.size) }
func (f *simFile) Close() error { return nil }

// TestStoreCrash: leases that were told are there after a crash at every moment, whatever of what
// was not synced has reached the disk, in whatever order; and no such crash keeps a server from
// starting.
func TestStoreCrash(t *testing.T) {
	payload := func(id lease.ID) []byte { return []byte(aLease(id).Grant.File) }
	report, err := crashtest.Explore(&crashtest.Script{
		Name: "leases", Size: 2048,
		Run: func(x *crashtest.Run) error {
			s := &store{f: &simFile{mem: x.Mem}}
			if err := errors.Join(s.write(appendStore(nil, 0)), s.f.Sync()); err != nil {
				return err
			}
			for id := lease.ID(1); id <= 6; id++ {
				e := aLease(id)
				x.Sent(uint64(id), payload(id))
				if err := s.grant(&e); err != nil {
					return err
				}
				x.Acked(uint64(id), payload(id))
				if id == 3 || id == 5 { // all of them are over
					x.Applied(uint64(id))
					s.end([]lease.ID{id - 2, id - 1, id})
				}
				if id == 5 {
					if err := s.settle(); err != nil {
						return err
					}
				}
			}
			return s.close()
		},
		Recover: func(octets []byte) (got []crashtest.Record, err error) {
			if len(bytes.Trim(octets[:len(storeMagic)], "\x00")) < len(storeMagic) {
				return nil, crashtest.ErrNothing // a file has its name when it has been synced
			}
			l, err := parseStore(octets)
			if err != nil {
				return nil, err
			}
			for _, e := range l.live {
				got = append(got, crashtest.Record{Seq: uint64(e.ID), Payload: e.Grant.File})
			}
			return got, nil
		},
	}, crashtest.Budget{})
	if err != nil || report.Acked != 6 {
		t.Fatal(err, report)
	}
	t.Logf("%+v", report)
}

// TestStoreOver: ended leases are soon in the file, even if no more leases are granted.
func TestStoreOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	p, c := w.plain(0), w.pusher("log", 0)
	if st := c.giveBack(c.lease(p.create("f", 0o644))); st != pushfile.StatusOK {
		t.Fatal(st)
	}
	until(t, "no lease in the file", func() bool {
		l, err := readStore(filepath.Join(w.cfg.Dir, storeName))
		if err != nil {
			t.Fatal(err)
		}
		return len(l.live) == 0
	})
}

// TestStoreStart: a server starts over a torn file and says so; over a damaged one, or without one
// beside logs, it does not, and leaves everything as it is.
func TestStoreStart(t *testing.T) {
	w := newWorld(t, nil)
	p, c := w.plain(0), w.pusher("log", 0)
	h := p.create("f", 0o644)
	write, _ := full(nfs3.ErrNoSpc)
	w.files.fail(write, nil)
	c.wrote(c.lease(h), 0, "kept")
	w.stop()
	path := filepath.Join(w.cfg.Dir, storeName)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	e := aLease(7)
	torn := append(bytes.Clone(good), appendEntry(nil, entryGrant, &e)[:30]...)
	bad := bytes.Clone(good)
	bad[0] ^= 1
	for _, content := range [][]byte{bad, nil} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if content != nil {
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Open(&w.cfg); !errors.Is(err, ErrStore) {
			t.Fatal("it has started:", err)
		}
		if left, _ := os.ReadFile(path); !bytes.Equal(left, content) {
			t.Error("the damaged file was changed")
		}
		if err := os.WriteFile(path, good, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, torn, 0o600); err != nil {
		t.Fatal(err)
	}
	core, logged := observer.New(zap.WarnLevel)
	w.cfg.Logger = zap.New(core)
	w.start(nil)
	p.has(h, "kept")
	if logged.FilterMessageSnippet("mended").Len() != 1 {
		t.Error("not said:", logged.All())
	}
}
