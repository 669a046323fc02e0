package pmem_test

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
)

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

func TestKind(t *testing.T) {
	for _, k := range []pmem.Kind{pmem.File, pmem.Mmap, pmem.DAX} {
		if got, err := pmem.ParseKind(k.String()); got != k || err != nil {
			t.Errorf("%v: %v %v", k, got, err)
		}
	}
	for _, s := range []string{"", "File", "sim", pmem.Kind(9).String()} {
		if _, err := pmem.ParseKind(s); err == nil {
			t.Errorf("%q: no error", s)
		}
	}
	if _, err := pmem.Open(pmem.Kind(9), newFile(t, 64), nil); !errors.Is(err, pmem.ErrRefused) {
		t.Error(err)
	}
}
