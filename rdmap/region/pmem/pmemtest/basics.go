package pmemtest

import (
	"bytes"
	"errors"
	"math"
	"sync"
	"testing"
	"unsafe"

	"github.com/stag-rdma/stag/rdmap/region"
)

// New memory has the right size, holds zeros, stays at one address, and is aligned for atomics.
func testOctets(t *testing.T, g Target) {
	for _, size := range []int{1, 63, 64, 4096, 4097, 70_000} {
		m := g.create(t, size, nil)
		b := m.Bytes()
		if !bytes.Equal(b, make([]byte, size)) {
			t.Errorf("new memory of %d octets: got %d octets, or not all zeros", size, len(b))
		}
		if again := m.Bytes(); &again[0] != &b[0] {
			t.Errorf("memory of %d octets: the second call of Bytes returned another array", size)
		}
		if uintptr(unsafe.Pointer(&b[0]))%8 != 0 {
			t.Errorf("memory of %d octets: not aligned to 8", size)
		}
	}
}

// Every range within the memory can be persisted. Others are refused, without further effect.
func testRange(t *testing.T, g Target) {
	const size = 5000
	m := g.create(t, size, nil)
	for _, r := range []region.Range{
		{Off: -1, N: 1},
		{Off: 0, N: -1},
		{Off: 0, N: size + 1},
		{Off: size, N: 1},
		{Off: size + 1, N: 0},
		{Off: 1, N: math.MaxInt},
		{Off: math.MaxInt, N: math.MaxInt},
		{Off: math.MinInt, N: math.MaxInt},
	} {
		if m.Persist(r.Off, r.N) == nil {
			t.Errorf("Persist of %d octets at %d: no error", r.N, r.Off)
		}
	}
	for _, r := range []region.Range{
		{Off: 0, N: 0},
		{Off: size, N: 0},
		{Off: 0, N: 1},
		{Off: size - 1, N: 1},
		{Off: 4095, N: 2},
		{Off: 63, N: 66},
		{Off: 0, N: size},
	} {
		persist(t, m, r.Off, r.N)
	}
	rs := []region.Range{{Off: 4990, N: 10}, {Off: 0, N: 7}, {Off: 3, N: 9}, {Off: 3, N: 0}}
	if err := region.PersistRanges(m, rs); err != nil {
		t.Error(err)
	}
	if err := region.PersistRanges(m, nil); err != nil {
		t.Error(err)
	}
}

// The memory works when it is registered and used as the engine uses it.
func testRegistered(t *testing.T, g Target) {
	m := g.create(t, 4096, nil)
	tab := region.NewTable()
	r, err := tab.RegisterMemory(m, region.Options{Access: region.RemoteWrite | region.FlushPersistent})
	if err != nil {
		t.Fatal(err)
	}
	v, err := tab.Lookup(r.STag(), 100, 5, region.RemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	err = errors.Join(v.CopyIn([]byte("hello")), v.Memory().Persist(v.Offset(), 5), v.CopyOut(got, 0))
	v.Release()
	if err != nil || string(got) != "hello" || string(m.Bytes()[100:105]) != "hello" {
		t.Errorf("%q %v", got, err)
	}
	if err := r.Invalidate(t.Context()); err != nil {
		t.Error(err)
	}
}

// A Guarded memory copies, refuses octets outside it, and passes on errors and panics.
func testGuarded(t *testing.T, g Target) {
	m, ok := g.create(t, 4096, nil).(region.Guarded)
	if !ok {
		return
	}
	got := make([]byte, 3)
	if err := errors.Join(m.Store(4093, []byte("end")), m.Load(got, 4093)); err != nil || string(got) != "end" {
		t.Errorf("%q %v", got, err)
	}
	for _, off := range []int{-1, 4094, math.MaxInt} {
		if m.Store(off, got) == nil || m.Load(got, off) == nil || m.Guard(off, 3, func() error { return nil }) == nil {
			t.Errorf("access to 3 octets at %d: no error", off)
		}
	}
	want := errors.New("of f")
	if err := m.Guard(0, 1, func() error { return want }); !errors.Is(err, want) || errors.Is(err, region.ErrRegionLost) {
		t.Error(err)
	}
	if r := recovered(func() { _ = m.Guard(0, 1, func() error { panic(want) }) }); r != any(want) {
		t.Errorf("panic of f became %v", r)
	}
	if w, ok := m.(region.Watched); ok && w.Err() != nil {
		t.Errorf("an error or panic of f made the memory fail: %v", w.Err())
	}
}

func recovered(f func()) (r any) {
	defer func() { r = recover() }()
	f()
	return nil
}

// Several goroutines store and persist, each its own piece.
func testConcurrent(t *testing.T, g Target) {
	const workers, piece = 4, 100
	m := g.create(t, workers*piece, nil)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for k := range 8 {
				store(t, m, w*piece, bytes.Repeat([]byte{byte(16*w + k)}, piece))
				if err := m.Persist(w*piece, piece); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for w := range workers {
		if want := bytes.Repeat([]byte{byte(16*w + 7)}, piece); !bytes.Equal(m.Bytes()[w*piece:][:piece], want) {
			t.Errorf("piece %d is damaged", w)
		}
	}
}

// Close is idempotent and final.
func testClose(t *testing.T, g Target) {
	m := g.Create(t, 4096, nil)
	for range 2 {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	if m.Persist(0, 1) == nil {
		t.Error("persist after close: no error")
	}
	if m, ok := m.(region.Guarded); ok {
		if m.Store(0, []byte{1}) == nil || m.Load(make([]byte, 1), 0) == nil || m.Guard(0, 0, func() error { return nil }) == nil {
			t.Error("access after close: no error")
		}
	}
}

// The memory has one owner.
func testOwner(t *testing.T, g Target) {
	m := g.create(t, 4096, nil)
	if g.Again(t, m) == nil {
		t.Error("opened twice")
	}
	persist(t, m, 0, 4096) // the first owner is not disturbed
}
