package pushwrite

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"sync"
	"syscall"
	"testing"

	"github.com/stag-rdma/stag/internal/pmemsim"
	"github.com/stag-rdma/stag/internal/pmemtest"
	"github.com/stag-rdma/stag/nfsdemo/internal/lease"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
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

// small is the size of a memory for some entries.
const small = 20480 + 4096

// written is a log of three grants, of which the second one is over.
func written(t *testing.T) []byte {
	t.Helper()
	mem := pmemsim.New(small, nil)
	l, err := newEntryLog(mem)
	if err != nil {
		t.Fatal(err)
	}
	for id := range lease.ID(3) {
		e := aLease(id + 1)
		if err := l.append([][]byte{encodeEntry(entryGrant, &e)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(l.append([][]byte{encodeEntry(entryOver, &stored{ID: 2})}), l.close()); err != nil {
		t.Fatal(err)
	}
	return mem.Bytes()
}

func readBytes(b []byte) (*leases, error) { return readLeases(bytes.NewReader(b), int64(len(b))) }

// TestStoreDamage: damage in one place, anywhere, loses no lease, unless it says that the log is of another version. Where
// both records of an entry are damaged, and others follow, the log is refused.
func TestStoreDamage(t *testing.T) {
	b := written(t)
	if l, err := readBytes(b); err != nil || numbers(t, l) != "13" || l.mended != 0 || l.last != 3 {
		t.Fatalf("%+v %v", l, err)
	}
	for at := range b {
		bad := bytes.Clone(b)
		bad[at] ^= 1 << (at % 8)
		l, err := readBytes(bad)
		if version := at%4096 >= 8 && at%4096 < 12 && at < 8192; version && errors.Is(err, ErrStore) {
			continue
		}
		if err != nil || numbers(t, l) != "13" || l.last != 3 {
			t.Fatalf("octet %d: %+v %v", at, l, err)
		}
	}
	const record = 128 // of a grant
	for n := range 3 {
		bad := bytes.Clone(b)
		bad[20480+2*n*record+40] ^= 1
		if l, err := readBytes(bad); err != nil || l.mended != 1 {
			t.Errorf("one record of entry %d: %+v %v", n+1, l, err)
		}
		bad[20480+(2*n+1)*record+40] ^= 1
		if l, err := readBytes(bad); !errors.Is(err, ErrStore) {
			t.Errorf("both records of entry %d: %+v %v", n+1, l, err)
		}
	}
}

// TestStoreCrash: leases that were told are there after a crash at every moment, whatever of what was not flushed has reached
// the disk, in whatever order; those that were noted as over are not; and no such crash keeps a server from starting.
func TestStoreCrash(t *testing.T) {
	type cut struct {
		snap       *pmemsim.Snapshot
		told, over map[lease.ID]bool
	}
	var mu sync.Mutex
	var cuts []cut
	now := cut{told: make(map[lease.ID]bool), over: make(map[lease.ID]bool)}
	on := false
	mem := pmemsim.New(small, &pmemsim.Options{Step: func(s *pmemsim.Sim) {
		mu.Lock()
		defer mu.Unlock()
		if on {
			cuts = append(cuts, cut{s.Told(), maps.Clone(now.told), maps.Clone(now.over)})
		}
	}})
	l, err := newEntryLog(mem)
	if err != nil {
		t.Fatal(err)
	}
	on = true
	s := &store{log: l, snapshot: func() ([]stored, lease.ID) { t.Error("it is full"); return nil, 0 }}
	for id := lease.ID(1); id <= 6; id++ {
		e := aLease(id)
		if err := s.grant(&e); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		now.told[id] = true
		mu.Unlock()
		if id == 3 || id == 5 {
			ended := []lease.ID{id - 2, id - 1, id}
			mu.Lock()
			for _, n := range ended {
				delete(now.told, n)
			}
			mu.Unlock()
			s.end(ended)
			if err := s.settle(); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			for _, n := range ended {
				now.over[n] = true
			}
			mu.Unlock()
		}
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	images := 0
	for i, c := range cuts {
		for im := range c.snap.Crashes(uint64(i), 4) {
			images++
			l, err := readBytes(im.Octets())
			if err != nil {
				t.Fatalf("moment %d, %v: %v", i, im, err)
			}
			numbers(t, l)
			lost := maps.Clone(c.told)
			for _, e := range l.live {
				delete(lost, e.ID)
				if c.over[e.ID] {
					t.Fatalf("moment %d, %v: lease %d is back", i, im, e.ID)
				}
			}
			if len(lost) > 0 {
				t.Fatalf("moment %d, %v: lost %v", i, im, lost)
			}
		}
	}
	if len(cuts) < 20 || images < 1000 {
		t.Error(len(cuts), images)
	}
}

// TestStoreSick: a medium that fails once grants nothing more, and each grant says why; nobody waits.
func TestStoreSick(t *testing.T) {
	f := pmemtest.NewFaults()
	l, err := newEntryLog(pmemsim.New(small, &pmemsim.Options{Hooks: f.Hooks()}))
	if err != nil {
		t.Fatal(err)
	}
	defer l.close() //nolint:errcheck // its memory has failed
	s := &store{log: l}
	e := aLease(1)
	if err := s.grant(&e); err != nil {
		t.Fatal(err)
	}
	f.FailOnce(pmemtest.Persist, syscall.EIO)
	for range 3 {
		if err := s.grant(&e); !errors.Is(err, syscall.EIO) {
			t.Error(err)
		}
	}
}
