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

	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
)

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
			err := pmem.Create(filepath.Join(dir, "memory"), 3<<20, &pmem.Options{Hooks: f.Hooks()})
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
	if err := open(t, pmem.File, path, &pmem.Options{Size: 10_000}).Close(); err != nil {
		t.Error(err)
	}
	if got := names(t, filepath.Dir(path)); len(got) != 1 {
		t.Errorf("left behind: %v", got)
	}
}
