package pmemtest

import (
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
)

// isFinal requires that m has failed for good because of want, and makes no more system calls.
func isFinal(t *testing.T, g Target, m region.Memory, f *Faults, first, want error) {
	t.Helper()
	if !errors.Is(first, want) {
		t.Errorf("got %v, want %v", first, want)
	}
	calls := f.Count(g.Sync)
	for range 3 {
		if err := m.Persist(0, 64); err == nil || !errors.Is(err, want) {
			t.Errorf("after the first error: %v", err)
		}
	}
	if n := f.Count(g.Sync) - calls; n != 0 {
		t.Errorf("%d syncs after the first error", n)
	}
	w, ok := m.(region.Watched)
	if !ok {
		return
	}
	if err := w.Err(); !errors.Is(err, want) {
		t.Errorf("Err: %v", err)
	}
	select {
	case <-w.Failed():
	default:
		t.Error("Failed is open")
	}
}

// ADVERSARY 22: fsync fails once, then succeeds. Nothing is acknowledged after that.
func testFailsOnce(t *testing.T, g Target) {
	f := NewFaults()
	m := g.create(t, 4096, f)
	persist(t, m, 0, 64)
	store(t, m, 0, []byte("lost"))
	f.FailOnce(g.Sync, syscall.EIO)
	isFinal(t, g, m, f, m.Persist(0, 64), syscall.EIO)
}

// ADVERSARY 25: the disk is dead.
func testFailsForGood(t *testing.T, g Target) {
	for _, rs := range [][]region.Range{{{Off: 100, N: 1}}, {{Off: 100, N: 1}, {Off: 9000, N: 1}}} {
		f := NewFaults()
		m := g.create(t, 3*4096, f)
		f.Fail(g.Sync, syscall.EIO)
		isFinal(t, g, m, f, region.PersistRanges(m, rs), syscall.EIO)
	}
}

// What was acknowledged before the failure survives.
func testAcknowledged(t *testing.T, g Target) {
	f := NewFaults()
	m := g.Create(t, 4096, f)
	store(t, m, 0, []byte("acknowledged"))
	persist(t, m, 0, 12)
	f.FailOnce(g.Sync, syscall.EIO)
	store(t, m, 512, []byte("not"))
	if m.Persist(512, 3) == nil {
		t.Error("no error")
	}
	m = g.Crash(t, m)
	if got := string(m.Bytes()[:12]); got != "acknowledged" {
		t.Errorf("%q", got)
	}
	persist(t, m, 0, 12) // reopened, it is as good as new
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// The kernel reports a failed write-back to one caller. No other caller may get success for what was
// stored before it: here nobody does, since the first sync fails.
func testFailsConcurrently(t *testing.T, g Target) {
	f := NewFaults()
	m := g.create(t, 64*8, f)
	f.FailOnce(g.Sync, syscall.EIO)
	var acked atomic.Int32
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			store(t, m, w*64, []byte{1})
			if m.Persist(w*64, 64) == nil {
				acked.Add(1)
			}
		})
	}
	wg.Wait()
	if n := acked.Load(); n != 0 {
		t.Errorf("%d acknowledged", n)
	}
	if n := f.Count(g.Sync); n != 1 {
		t.Errorf("%d syncs, want 1", n)
	}
}

// ADVERSARY 25: no space, for the only range, or for the first of two.
func testFull(t *testing.T, g Target) {
	const size = 4 * 4096
	for _, rs := range [][]region.Range{{{Off: 0, N: size}}, {{Off: 0, N: 1}, {Off: 3 * 4096, N: 1}}} {
		f := NewFaults()
		m := g.create(t, size, f)
		f.FailOnce(g.Write, syscall.ENOSPC)
		isFinal(t, g, m, f, region.PersistRanges(m, rs), syscall.ENOSPC)
	}
}

// ADVERSARY 25: the file is truncated. Success would cover lost octets, wherever the range lies, even
// after somebody has given the file its length back.
func testTruncated(t *testing.T, g Target) {
	const size = 1 << 16
	for _, cut := range []int{0, 1, 4096, size - 1} {
		for _, r := range []region.Range{{Off: 0, N: 1}, {Off: 0, N: size}, {Off: size - 64, N: 64}, {Off: 0, N: 0}} {
			f := NewFaults()
			m := g.create(t, size, f)
			store(t, m, 0, []byte("stored"))
			g.Truncate(t, m, cut)
			err := m.Persist(r.Off, r.N)
			isFinal(t, g, m, f, err, region.ErrRegionLost)
			g.Truncate(t, m, size)
			isFinal(t, g, m, f, err, region.ErrRegionLost)
		}
	}
}

// ADVERSARY 25: the file is truncated while it is being synced, which succeeds.
func testTruncatedDuring(t *testing.T, g Target) {
	f := NewFaults()
	m := g.create(t, 1<<16, f)
	entered, release := f.Hang(g.Sync)
	done := make(chan error)
	go func() { done <- m.Persist(0, 64) }()
	<-entered
	g.Truncate(t, m, 4096)
	release()
	isFinal(t, g, m, f, <-done, region.ErrRegionLost)
}

// ADVERSARY 25: touching octets that are gone is an error, and final.
func testFaults(t *testing.T, g Target) {
	const size = 1 << 16
	for name, touch := range map[string]func(region.Guarded) error{
		"store": func(m region.Guarded) error { return m.Store(size-8, make([]byte, 8)) },
		"load":  func(m region.Guarded) error { return m.Load(make([]byte, size), 0) },
		"guard": func(m region.Guarded) error {
			return m.Guard(0, size, func() error { m.Bytes()[size/2]++; return nil })
		},
		"system call": func(m region.Guarded) error { return m.Guard(0, size, func() error { return syscall.EFAULT }) },
	} {
		t.Run(name, func(t *testing.T) {
			f := NewFaults()
			m, ok := g.create(t, size, f).(region.Guarded)
			if !ok {
				t.Fatal("access to it can fault, but it is not Guarded")
			}
			g.Truncate(t, m, 0)
			err := touch(m)
			isFinal(t, g, m, f, err, region.ErrRegionLost)
			if err := touch(m); !errors.Is(err, region.ErrRegionLost) {
				t.Errorf("again: %v", err)
			}
			g.Truncate(t, m, size) // zeros again, and no more faults
			for _, err := range []error{m.Load(make([]byte, 1), 0), m.Store(0, []byte{1})} {
				if !errors.Is(err, region.ErrRegionLost) {
					t.Errorf("after the file has got its length back: %v", err)
				}
			}
		})
	}
}
