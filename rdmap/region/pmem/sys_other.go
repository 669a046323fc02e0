//go:build !linux

package pmem

import (
	"errors"
	"os"
	"runtime"
)

// datasync is fsync; on darwin the os package makes the drive flush too.
func datasync(f *os.File) error { return f.Sync() }

// writeSync does nothing: there is no such system call.
func writeSync(*os.File, []byte, int) (n int, err error) { return 0, nil }

// block is unused: nothing is written past the page cache.
const block = 4096

func takesDirect(*os.File) bool { return false }

func reopen(*os.File, int, bool) (*os.File, error) { return nil, os.ErrInvalid }

func cached(*os.File, int, int) (bool, error) { return true, nil }

func pread(f *os.File, b []byte, off int) (int, error) { return f.ReadAt(b, int64(off)) }

// stat returns the size. It does not look for the name: named is always true.
func stat(f *os.File) (size int64, named bool, err error) {
	fi, err := f.Stat()
	if err != nil {
		return 0, false, err
	}
	return fi.Size(), true, nil
}

func dropCache(*os.File) error { return nil }

func openMmap(d *device) ([]byte, medium, error) {
	return nil, nil, d.error("open", ErrRefused, errors.New("mappings are not supported on "+runtime.GOOS))
}

func openDAX(d *device) ([]byte, medium, error) {
	return nil, nil, d.error("open", ErrRefused, errors.New("persistent memory is not supported on "+runtime.GOOS))
}
