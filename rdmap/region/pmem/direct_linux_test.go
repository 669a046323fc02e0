package pmem_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
)

// openDirect returns a memory that is written past the page cache. It skips the test if the file system does not
// support that.
func openDirect(t testing.TB, size int, o *pmem.Options) *pmem.Memory {
	t.Helper()
	m := open(t, pmem.File, newFile(t, size), o)
	t.Cleanup(func() { m.Close() })
	mustBeDirect(t, m)
	return m
}

func mustBeDirect(t testing.TB, m *pmem.Memory) {
	t.Helper()
	switch {
	case !m.TakesDirect():
		t.Skip("this file system does not support direct writes")
	case !m.Direct():
		t.Fatal("the memory is written through the page cache")
	}
}

// The file holds exactly the octets that were persisted, whatever shares a block with them, and whoever opens it.
func TestDirect(t *testing.T) {
	const size = 6 * 4096
	m := openDirect(t, size, nil)
	stored, want := make([]byte, size), make([]byte, size)
	r := rand.New(rand.NewPCG(4, 4))
	some := func() region.Range {
		off := r.IntN(size)
		return region.Range{Off: off, N: r.IntN(min(9000, size-off) + 1)}
	}
	for round := range 200 {
		if round%50 == 49 {
			noErr(t, m.Close())
			m = open(t, pmem.File, m.Path(), nil)
			t.Cleanup(func() { m.Close() })
			mustBeDirect(t, m)
			copy(stored, want)
		}
		at := some()
		p := bytes.Repeat([]byte{byte(round + 1)}, at.N)
		noErr(t, m.Store(at.Off, p))
		copy(stored[at.Off:], p)
		rs := []region.Range{some(), some(), some()}[:1+round%3]
		for _, r := range rs {
			copy(want[r.Off:], stored[r.Off:r.Off+r.N])
		}
		noErr(t, m.PersistRanges(rs))
		if got, err := os.ReadFile(m.Path()); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("round %d, %v: the file differs, %v", round, rs, err)
		}
	}
}

// Neighbours in a block are stored and persisted at the same time; neither disturbs the
// other.
func TestDirectNeighbours(t *testing.T) {
	const each, piece = 30, 100
	m := openDirect(t, 4096, nil)
	var wg sync.WaitGroup
	for k := range 4 {
		wg.Go(func() {
			for i := range each {
				p := bytes.Repeat([]byte{byte(k*each + i + 1)}, piece)
				if err := errors.Join(m.Store(k*piece, p), m.Persist(k*piece, piece)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	want := make([]byte, 4096)
	for k := range 4 {
		copy(want[k*piece:], bytes.Repeat([]byte{byte(k*each + each)}, piece))
	}
	if got, err := os.ReadFile(m.Path()); err != nil || !bytes.Equal(got, want) {
		t.Fatal("the file differs", err)
	}
}

// A memory without whole blocks, or one that needs too large a copy, is written through the page cache.
func TestNotDirect(t *testing.T) {
	openDirect(t, 4096, nil)
	for _, size := range []int{4095, 4096 + 64} {
		m := open(t, pmem.File, newFile(t, size), nil)
		if m.Direct() {
			t.Error(size)
		}
		m.Close()
	}
	big := newFile(t, 1)
	noErr(t, os.Truncate(big, pmem.MaxDirect+4096))
	if m, err := pmem.Open(pmem.File, big, nil); err != nil {
		t.Error(err)
	} else {
		if m.Direct() {
			t.Error("a memory that is too large is written past the page cache")
		}
		m.Close()
	}
}

// A failed direct write is final like any other, and a truncated file is noticed.
func TestDirectFails(t *testing.T) {
	f := pmemtest.NewFaults()
	m := openDirect(t, 8192, &pmem.Options{Hooks: f.Hooks()})
	noErr(t, errors.Join(m.Store(5000, []byte("x")), m.Persist(5000, 1)))
	f.Fail(pmem.OpWrite, syscall.EIO)
	if err := m.Persist(0, 1); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	if err := m.Persist(0, 1); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	cut := openDirect(t, 8192, nil)
	noErr(t, os.Truncate(cut.Path(), 4096))
	if err := cut.Persist(8191, 1); !errors.Is(err, region.ErrRegionLost) {
		t.Error(err)
	}
}
