package pmem

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// datasync is fdatasync. EINTR says that it has not run, so calling it again does not
// hide the outcome of a write-back.
func datasync(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// stat returns the size, and whether the file has a name.
func stat(f *os.File) (size int64, named bool, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return 0, false, err
	}
	return st.Size, st.Nlink > 0, nil
}

// dropCache forgets the clean pages of f.
func dropCache(f *os.File) error {
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}

// hole returns the offset of the first hole; size if there is none.
func hole(f *os.File, size int) (int64, error) {
	off, err := unix.Seek(int(f.Fd()), 0, unix.SEEK_HOLE)
	if errors.Is(err, unix.EINVAL) {
		return int64(size), nil // the file system does not tell
	}
	return off, err
}
