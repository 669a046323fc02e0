package pmemtest_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stag-rdma/stag/internal/pmemsim"
	"github.com/stag-rdma/stag/internal/pmemtest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
)

func TestFaults(t *testing.T) {
	f := pmemtest.NewFaults()
	want := func(op pmemtest.Op, want ...error) {
		t.Helper()
		for k, w := range want {
			if err := f.Before(op); !errors.Is(err, w) {
				t.Errorf("%s %d: %v, want %v", op, k, err, w)
			}
		}
	}
	want(pmemtest.Write, nil)
	f.FailOnce(pmemtest.Write, syscall.EIO)
	want(pmemtest.Datasync, nil)
	want(pmemtest.Write, syscall.EIO, nil)
	f.FailAfter(pmemtest.Write, 2, syscall.EIO)
	want(pmemtest.Write, nil, nil, syscall.EIO, nil)
	f.Fail(pmemtest.Write, syscall.ENOSPC)
	want(pmemtest.Write, syscall.ENOSPC, syscall.ENOSPC)
	f.Clear(pmemtest.Write)
	want(pmemtest.Write, nil)
	if n := f.Count(pmemtest.Write); n != 10 {
		t.Errorf("counted %d, want 10", n)
	}
	entered, release := f.Hang(pmemtest.Msync)
	done := make(chan error)
	go func() { done <- f.Before(pmemtest.Msync) }()
	<-entered
	release()
	if err := <-done; err != nil {
		t.Error(err)
	}
	want(pmemtest.Msync, nil)
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

	m := pmemsim.New(64, &pmemsim.Options{Hooks: f.Hooks()})
	f.FailOnce(pmemtest.Persist, syscall.EIO)
	fmt.Println(errors.Is(m.Persist(0, 1), syscall.EIO), errors.Is(m.Persist(0, 1), syscall.EIO), f.Count(pmemtest.Persist))
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
	f.FailOnce(pmemtest.Persist, syscall.EIO)
	fmt.Println(m.Persist(0, 1) != nil, m.Persist(0, 1) == nil, len(m.Bytes()))
	// Output: true true 64
}
