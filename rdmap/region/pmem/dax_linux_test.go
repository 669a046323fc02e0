package pmem_test

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
)

// DAX is refused where the promise cannot be proved, with the reason and with advice.
func TestDAXRefused(t *testing.T) {
	m, err := pmem.Open(pmem.DAX, newFile(t, 4096), nil)
	if err == nil {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		t.Skip("the temporary directory is on persistent memory")
	}
	if !errors.Is(err, pmem.ErrRefused) {
		t.Errorf("%v", err)
	}
	if !strings.Contains(err.Error(), "MAP_SYNC") && !strings.Contains(err.Error(), "write-back") {
		t.Errorf("no reason: %v", err)
	}
	if !strings.Contains(err.Error(), "open as file or mmap") {
		t.Errorf("no advice: %v", err)
	}
}

func TestDAXNeedsInstruction(t *testing.T) {
	why := errors.New("no such instruction")
	pmem.PretendNoInstruction(t, why)
	if _, err := pmem.Open(pmem.DAX, newFile(t, 4096), nil); !errors.Is(err, pmem.ErrRefused) || !errors.Is(err, why) {
		t.Error(err)
	}
}

// A hole may become a fault: mappings refuse it, and the kind file fills it.
func TestHoles(t *testing.T) {
	pmem.PretendDAX(t)
	path := t.TempDir() + "/sparse"
	f := must(os.Create(path))(t)
	noErr(t, errors.Join(f.Truncate(1<<20), f.Close()))
	for _, k := range []pmem.Kind{pmem.Mmap, pmem.DAX} {
		if _, err := pmem.Open(k, path, nil); !errors.Is(err, pmem.ErrRefused) || !strings.Contains(err.Error(), "hole") {
			t.Errorf("%v: %v", k, err)
		}
	}
	m := open(t, pmem.File, path, nil)
	if err := errors.Join(m.Persist(0, 1<<20), m.Close()); err != nil {
		t.Error(err)
	}
}

// The write-back itself faults if the file is truncated while it runs.
func TestDAXWriteBackFaults(t *testing.T) {
	pmem.PretendDAX(t)
	path := newFile(t, 1<<16)
	m := open(t, pmem.DAX, path, nil)
	noErr(t, errors.Join(m.Store(0, []byte("x")), m.Persist(0, 1<<16), os.Truncate(path, 0)))
	err := m.Persist(0, 1<<16)
	if err == nil || !strings.Contains(err.Error(), "write back") || !strings.Contains(err.Error(), "fault at octet 0") {
		t.Error(err)
	}
	noErr(t, os.Truncate(path, 1<<16))
	for _, err := range []error{m.Persist(0, 1), m.Err()} {
		if !errors.Is(err, region.ErrRegionLost) {
			t.Errorf("not final: %v", err)
		}
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// A real system call on a mapping that is gone fails with EFAULT.
func TestRealEFAULT(t *testing.T) {
	path := newFile(t, 4096)
	m := open(t, pmem.Mmap, path, nil)
	noErr(t, os.Truncate(path, 0))
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	err = m.Guard(0, 4096, func() error { _, err := w.Write(m.Bytes()); return err })
	if !errors.Is(err, syscall.EFAULT) || !errors.Is(m.Err(), syscall.EFAULT) {
		t.Error(err)
	}
	if err := errors.Join(r.Close(), w.Close(), m.Close()); err != nil {
		t.Error(err)
	}
}
