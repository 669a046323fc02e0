package pmem_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
)

// TestMain fails the package if a test leaves a goroutine behind.
func TestMain(m *testing.M) { rdmaptest.Main(m) }

// must returns v, unless err ends the test.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		noErr(t, err)
		return v
	}
}

// noErr ends the test if err is an error.
func noErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newFile creates a file and returns its name.
func newFile(t testing.TB, size int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "memory")
	noErr(t, pmem.Create(path, size, nil))
	return path
}

func open(t testing.TB, kind pmem.Kind, path string, o pmem.Hook) *pmem.Memory {
	t.Helper()
	m := must(pmem.Open(kind, path, o))(t)
	return m
}

// fileTarget is a memory in a file. Its crash copies the file: it is what a new process finds there before the old one
// has ended.
func fileTarget(kind pmem.Kind) pmemtest.Target {
	return pmemtest.Target{
		Create: func(t testing.TB, size int, f *pmemtest.Faults) region.Memory {
			return open(t, kind, newFile(t, size), f.Hook())
		},
		Crash: func(t testing.TB, m region.Memory) region.Memory {
			image := must(os.ReadFile(m.(*pmem.Memory).Path()))(t)
			path := filepath.Join(t.TempDir(), "after")
			noErr(t, os.WriteFile(path, image, 0o600))
			noErr(t, m.Close())
			return open(t, kind, path, nil)
		},
		Again: func(_ testing.TB, m region.Memory) error {
			_, err := pmem.Open(kind, m.(*pmem.Memory).Path(), nil)
			return err
		},
		Truncate: func(t testing.TB, m region.Memory, n int) {
			noErr(t, os.Truncate(m.(*pmem.Memory).Path(), int64(n)))
		},
	}
}

func TestFile(t *testing.T) {
	g := fileTarget(pmem.File)
	g.Sync, g.Write, g.Exact = pmem.OpDatasync, pmem.OpWrite, true
	pmemtest.Run(t, g)
}

func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	es := must(os.ReadDir(dir))(t)
	for _, e := range es {
		all = append(all, e.Name())
	}
	return all
}

func TestCreateRefuses(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "there")
	noErr(t, os.WriteFile(there, []byte("precious"), 0o600))
	for _, tt := range []struct {
		path string
		size int
		want error
		next string // the advice in the error
	}{
		{there, 64, fs.ErrExist, "(open it, or remove it"},
		{filepath.Join(dir, "no", "dir"), 64, fs.ErrNotExist, "choose another place"},
		{filepath.Join(dir, "empty"), 0, pmem.ErrSize, "(a memory has at least one octet)"},
		{filepath.Join(dir, "negative"), -1, pmem.ErrSize, "at least one octet"},
	} {
		if err := pmem.Create(tt.path, tt.size, nil); !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.next) {
			t.Errorf("%s, %d octets: %v; want %v, %q", tt.path, tt.size, err, tt.want, tt.next)
		}
	}
	if got, err := os.ReadFile(there); string(got) != "precious" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("left behind: %v", got)
	}
}

// ADVERSARY 25: no space, or a dead disk, at any step: there is no file, and nothing is left behind.
func TestCreateFails(t *testing.T) {
	for _, op := range []pmem.Op{pmem.OpWrite, pmem.OpDatasync, pmem.OpDirectory} {
		for after := range 3 {
			dir, f := t.TempDir(), pmemtest.NewFaults()
			f.FailAfter(op, after, syscall.ENOSPC)
			err := pmem.Create(filepath.Join(dir, "memory"), 3<<20, f.Hook())
			if op != pmem.OpWrite && after > 0 { // there is only one
				if err != nil {
					t.Error(err)
				}
				continue
			}
			if !errors.Is(err, pmem.ErrCreate) || !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("%s fails after %d: %v", op, after, err)
			}
			if got := names(t, dir); len(got) != 0 {
				t.Errorf("%s fails after %d: left behind: %v", op, after, got)
			}
		}
	}
}

// Of several creators one wins, and its file is complete.
func TestCreateRace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory")
	var won atomic.Int32
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			switch err := pmem.Create(path, 10_000, nil); {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, fs.ErrExist):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := won.Load(); n != 1 {
		t.Errorf("%d winners", n)
	}
	if err := open(t, pmem.File, path, nil).Close(); err != nil {
		t.Error(err)
	}
	if got := names(t, filepath.Dir(path)); len(got) != 1 {
		t.Errorf("left behind: %v", got)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	noErr(t, os.WriteFile(empty, nil, 0o600))
	for _, tt := range []struct {
		kind pmem.Kind
		path string
		want error
	}{
		{pmem.File, filepath.Join(dir, "none"), pmem.ErrOpen},
		{pmem.File, dir, pmem.ErrOpen}, // a directory
		{pmem.File, empty, pmem.ErrSize},
		{pmem.File, "/dev/null", pmem.ErrSize},
		{9, newFile(t, 64), pmem.ErrRefused},
	} {
		_, err := pmem.Open(tt.kind, tt.path, nil)
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
	if _, err := pmem.Open(pmem.File, path, f.Hook()); !errors.Is(err, pmem.ErrOpen) || !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	if err := open(t, pmem.File, path, f.Hook()).Close(); err != nil {
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
		noErr(t, err)
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

// Every kind of error says what to do next, and errors.Is finds it and its cause.
func TestErrors(t *testing.T) {
	for _, tt := range []struct {
		kind error
		next string
	}{
		{pmem.ErrLocked, "stop the other opener"},
		{pmem.ErrCreate, "create again"},
		{pmem.ErrOpen, "open again"},
		{pmem.ErrSize, "restore the file"},
		{pmem.ErrRefused, "open as file or mmap"},
		{pmem.ErrRange, "stay within Bytes"},
		{pmem.ErrFailed, "reopen through recovery"},
		{pmem.ErrClosed, "open again"},
		{region.ErrRegionLost, "restore the file"},
		{region.ErrPinned, "leave the memory alone"},
	} {
		err := error(&pmem.Error{Op: "op", Path: "/p", Kind: tt.kind, Err: syscall.EIO})
		if !errors.Is(err, tt.kind) || !errors.Is(err, syscall.EIO) {
			t.Errorf("%v: kind or cause not found", err)
		}
		for _, part := range []string{"pmem: op /p: ", tt.kind.Error(), syscall.EIO.Error(), tt.next} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%v: no %q", err, part)
			}
		}
	}
	err := &pmem.Error{Op: "persist", Kind: pmem.ErrClosed}
	if got, want := err.Error(), "pmem: persist: memory closed (open again)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// The message has the path once.
func TestErrorHasOnePath(t *testing.T) {
	path := t.TempDir() + "/none"
	_, err := pmem.Open(pmem.File, path, nil)
	if !errors.Is(err, fs.ErrNotExist) || strings.Count(err.Error(), path) != 1 {
		t.Error(err)
	}
	if _, ok := errors.AsType[*os.PathError](err); ok {
		t.Error("the cause has the path too")
	}
}

// The engine places with Store and Load: no allocation.
func TestAllocs(t *testing.T) {
	m := open(t, pmem.File, newFile(t, 4096), nil)
	defer m.Close()
	p := make([]byte, 64)
	if n := testing.AllocsPerRun(100, func() { _, _ = m.Store(0, p), m.Load(p, 0) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
