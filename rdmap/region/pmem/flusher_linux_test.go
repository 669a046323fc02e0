package pmem_test

import (
	"errors"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
)

// hangs lists memories whose flush can hang.
func hangs(t *testing.T, f *pmemtest.Faults) map[pmem.Op]region.Watched {
	t.Helper()
	return map[pmem.Op]region.Watched{
		pmem.OpDatasync: open(t, pmem.File, newFile(t, 4096), f.Hook()),
		pmem.OpPersist:  pmemtest.NewSim(4096, &pmemtest.SimOptions{Hook: f.Hook()}),
	}
}

// Calls that arrive while a flush is running share the next one.
func TestGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := pmemtest.NewFaults()
		for op, m := range hangs(t, f) {
			n := f.Count(op)
			entered, release := f.Hang(op)
			var wg sync.WaitGroup
			one := func(k int) {
				wg.Go(func() {
					if err := m.Persist(k*64, 64); err != nil {
						t.Error(err)
					}
				})
			}
			one(0)
			<-entered
			for k := range 20 {
				one(k)
			}
			synctest.Wait()
			release()
			wg.Wait()
			// The hook is called for each range of the model, but once for all ranges of a file.
			want := map[pmem.Op]int{pmem.OpDatasync: 2, pmem.OpPersist: 21}[op]
			if got := f.Count(op) - n; got != want {
				t.Errorf("%s: %d, want %d", op, got, want)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// A hung fsync pins the memory, which the kernel may still touch. At the deadline the memory has failed, and all callers
// are told except the one that hangs. Close gives up at its own deadline, keeps the memory and
// the lock, and finishes later.
func TestHungSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := pmemtest.NewFaults()
		for op, m := range hangs(t, f) {
			hang(t, m, f, op)
		}
	})
}

func hang(t *testing.T, m region.Watched, f *pmemtest.Faults, op pmem.Op) {
	t.Helper()
	entered, release := f.Hang(op)
	start := time.Now()
	first, behind := make(chan error, 1), make(chan error, 1)
	go func() { first <- m.Persist(0, 64) }()
	<-entered
	time.Sleep(30 * time.Second)
	go func() { behind <- m.Persist(64, 64) }()
	<-m.Failed()
	if err := <-behind; !errors.Is(err, region.ErrPinned) || time.Since(start) != time.Minute {
		t.Errorf("%s: a later call, after %v: %v", op, time.Since(start), err)
	}
	synctest.Wait()
	if len(first) > 0 {
		t.Errorf("%s: the caller in whose goroutine it hangs has returned", op)
	}
	isPinned(t, m, f, op)
	release()
	if err := <-first; !errors.Is(err, region.ErrPinned) {
		t.Errorf("%s: %v", op, err)
	}
	if err := m.Err(); !errors.Is(err, region.ErrPinned) {
		t.Errorf("%s: after the hang: %v", op, err)
	}
	if err := m.Close(); err != nil {
		t.Errorf("%s: close: %v", op, err)
	}
}

func isPinned(t *testing.T, m region.Watched, f *pmemtest.Faults, op pmem.Op) {
	t.Helper()
	n := f.Count(op)
	if err := m.Persist(0, 64); !errors.Is(err, region.ErrPinned) || f.Count(op) != n {
		t.Errorf("%s: not final: %v", op, err)
	}
	start := time.Now()
	for range 2 {
		if err := m.Close(); !errors.Is(err, region.ErrPinned) {
			t.Errorf("%s: close: %v", op, err)
		}
	}
	if took := time.Since(start); took != 20*time.Second {
		t.Errorf("%s: close gave up after %v", op, took)
	}
	m.Bytes()[0]++ // still mapped
	if mem, ok := m.(*pmem.Memory); ok {
		if _, err := pmem.Open(pmem.File, mem.Path(), nil); !errors.Is(err, pmem.ErrLocked) {
			t.Errorf("reopened under a hung fsync: %v", err)
		}
	}
}

// A slow fsync that ends before the deadline is a success.
func TestSlowSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := pmemtest.NewFaults()
		for op, m := range hangs(t, f) {
			_, release := f.Hang(op)
			time.AfterFunc(59*time.Second, release)
			if err := errors.Join(m.Persist(0, 64), m.Persist(0, 64), m.Close()); err != nil {
				t.Errorf("%s: %v", op, err)
			}
		}
	})
}

// Each flush has its full timeout, whenever the one before it was.
func TestDeadlineIsPerFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := pmemtest.NewFaults()
		for op, m := range hangs(t, f) {
			err := m.Persist(0, 64)
			for range 3 {
				time.Sleep(40 * time.Second)
				_, release := f.Hang(op)
				time.AfterFunc(50*time.Second, release)
				err = errors.Join(err, m.Persist(0, 64))
			}
			if err != nil {
				t.Errorf("%s: %v", op, err)
			}
			time.Sleep(10 * time.Minute) // the watch has nothing to do, and ends
			start := time.Now()
			_, release := f.Hang(op)
			go func() { _ = m.Persist(0, 64) }()
			if <-m.Failed(); time.Since(start) != time.Minute {
				t.Errorf("%s: failed after %v", op, time.Since(start))
			}
			release()
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// Close waits for callers inside a Guard too.
func TestCloseWaitsForGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := open(t, pmem.Mmap, newFile(t, 4096), nil)
		leave := make(chan struct{})
		go func() {
			err := m.Guard(0, 4096, func() error { <-leave; m.Bytes()[4095]++; return nil })
			if err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		if err := m.Close(); !errors.Is(err, region.ErrPinned) {
			t.Error(err)
		}
		close(leave)
		synctest.Wait()
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Of several failures the first one is final.
func TestFirstFailure(t *testing.T) {
	f := pmemtest.NewFaults()
	m := open(t, pmem.Mmap, newFile(t, 4096), f.Hook())
	f.FailOnce(pmem.OpMsync, syscall.EIO)
	errs := []error{m.Persist(0, 64), m.Guard(0, 1, func() error { return syscall.EFAULT }), m.Persist(0, 64), m.Err()}
	for i, err := range errs {
		if !errors.Is(err, syscall.EIO) || errors.Is(err, region.ErrRegionLost) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// A fault during a flush that itself succeeds: nobody gets success after that.
func TestFaultDuringSync(t *testing.T) {
	f := pmemtest.NewFaults()
	m := open(t, pmem.Mmap, newFile(t, 4096), f.Hook())
	entered, release := f.Hang(pmem.OpMsync)
	done := make(chan error)
	go func() { done <- m.Persist(0, 64) }()
	<-entered
	if err := m.Guard(0, 1, func() error { return syscall.EFAULT }); !errors.Is(err, region.ErrRegionLost) {
		t.Error(err)
	}
	release()
	if err := <-done; !errors.Is(err, region.ErrRegionLost) {
		t.Errorf("acknowledged: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
