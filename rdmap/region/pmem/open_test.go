package pmem_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
)

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	noErr(t, os.WriteFile(empty, nil, 0o600))
	for _, tt := range []struct {
		path string
		size int
		want error
	}{
		{filepath.Join(dir, "none"), 0, pmem.ErrOpen},
		{dir, 0, pmem.ErrOpen}, // a directory
		{empty, 0, pmem.ErrSize},
		{newFile(t, 64), 65, pmem.ErrSize},
		{"/dev/null", 0, pmem.ErrSize},
	} {
		_, err := pmem.Open(pmem.File, tt.path, &pmem.Options{Size: tt.size})
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", tt.path, err)
		}
	}
}

// A second opener of any kind gets ErrLocked; after Close the file is free.
func TestLocked(t *testing.T) {
	path := newFile(t, 4096)
	m := open(t, pmem.File, path, nil)
	for _, k := range []pmem.Kind{pmem.File, pmem.Mmap, pmem.DAX} {
		if _, err := pmem.Open(k, path, nil); !errors.Is(err, pmem.ErrLocked) {
			t.Errorf("%v: %v", k, err)
		}
	}
	noErr(t, m.Close())
	if err := open(t, pmem.File, path, nil).Close(); err != nil {
		t.Error(err)
	}
}

// A file that cannot be made durable at the start is not opened, and no lock is left.
func TestOpenSettles(t *testing.T) {
	path, f := newFile(t, 64), pmemtest.NewFaults()
	f.FailOnce(pmem.OpOpen, syscall.EIO)
	if _, err := pmem.Open(pmem.File, path, &pmem.Options{Hooks: f.Hooks()}); !errors.Is(err, pmem.ErrOpen) || !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	if err := open(t, pmem.File, path, &pmem.Options{Hooks: f.Hooks()}).Close(); err != nil {
		t.Error(err)
	}
	if n := f.Count(pmem.OpOpen); n != 2 {
		t.Errorf("settled %d times, want 2", n)
	}
}

// A file without a name is lost to the next opener, and Persist returns an error. The same holds for a file that was
// replaced by another.
func TestRemoved(t *testing.T) {
	for _, replace := range []bool{false, true} {
		path := newFile(t, 64)
		m := open(t, pmem.File, path, nil)
		noErr(t, m.Persist(0, 64))
		var err error
		if replace {
			err = os.Rename(newFile(t, 64), path)
		} else {
			err = os.Remove(path)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Persist(0, 64); !errors.Is(err, region.ErrRegionLost) {
			t.Errorf("replaced %v: %v", replace, err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A renamed file is still there.
func TestRenamed(t *testing.T) {
	path := newFile(t, 64)
	m := open(t, pmem.File, path, nil)
	noErr(t, os.Rename(path, path+"2"))
	if err := errors.Join(m.Persist(0, 64), m.Close()); err != nil {
		t.Error(err)
	}
}

func TestAccessors(t *testing.T) {
	path := newFile(t, 100)
	m := open(t, pmem.File, path, nil)
	defer m.Close()
	if m.Kind() != pmem.File || m.Path() != path {
		t.Error(m.Kind(), m.Path())
	}
	for range 3 {
		if err := m.PersistRanges([]region.Range{{Off: 0, N: 10}, {Off: 50, N: 5}}); err != nil {
			t.Error(err)
		}
	}
	if got, want := m.Stats(), (pmem.Stats{Persists: 3, Octets: 45, Flushes: 3}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
