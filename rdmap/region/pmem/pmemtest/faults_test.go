package pmemtest_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
)

func TestFaults(t *testing.T) {
	f := pmemtest.NewFaults()
	want := func(op pmem.Op, want ...error) {
		t.Helper()
		for k, w := range want {
			if err := f.Before(op); !errors.Is(err, w) {
				t.Errorf("%s %d: %v, want %v", op, k, err, w)
			}
		}
	}
	want(pmem.OpWrite, nil)
	f.FailOnce(pmem.OpWrite, syscall.EIO)
	want(pmem.OpDatasync, nil)
	want(pmem.OpWrite, syscall.EIO, nil)
	f.FailAfter(pmem.OpWrite, 2, syscall.EIO)
	want(pmem.OpWrite, nil, nil, syscall.EIO, nil)
	f.Fail(pmem.OpWrite, syscall.ENOSPC)
	want(pmem.OpWrite, syscall.ENOSPC, syscall.ENOSPC)
	f.Clear(pmem.OpWrite)
	want(pmem.OpWrite, nil)
	if n := f.Count(pmem.OpWrite); n != 10 {
		t.Errorf("counted %d, want 10", n)
	}
	entered, release := f.Hang(pmem.OpMsync)
	done := make(chan error)
	go func() { done <- f.Before(pmem.OpMsync) }()
	<-entered
	release()
	if err := <-done; err != nil {
		t.Error(err)
	}
	want(pmem.OpMsync, nil)
	if (*pmemtest.Faults)(nil).Hooks() != nil {
		t.Error("hooks of nil")
	}
}

// EIO of an fdatasync, once: the memory has failed for good.
func ExampleFaults() {
	f := pmemtest.NewFaults()
	dir, _ := filepath.Abs("nowhere")
	err := pmem.Create(filepath.Join(dir, "x"), 64, &pmem.Options{Hooks: f.Hooks()})
	fmt.Println(errors.Is(err, pmem.ErrCreate))

	m := pmemtest.NewSim(64, &pmemtest.SimOptions{Hooks: f.Hooks()})
	f.FailOnce(pmem.OpPersist, syscall.EIO)
	fmt.Println(errors.Is(m.Persist(0, 1), syscall.EIO), errors.Is(m.Persist(0, 1), syscall.EIO), f.Count(pmem.OpPersist))
	// Output:
	// true
	// true true 1
}

// noPersist is memory whose Persist does nothing.
type noPersist struct{ mem }

type mem = region.Bytes

func (noPersist) Persist(int, int) error { return nil }

// Any memory can be made to fail.
func ExampleWrap() {
	f := pmemtest.NewFaults()
	m := pmemtest.Wrap(noPersist{make(region.Bytes, 64)}, f)
	f.FailOnce(pmem.OpPersist, syscall.EIO)
	fmt.Println(m.Persist(0, 1) != nil, m.Persist(0, 1) == nil, len(m.Bytes()))
	// Output: true true 64
}
