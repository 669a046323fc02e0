package pmem

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// datasync is fdatasync. EINTR means that it has not run, so calling it again does not hide the
// outcome of a write-back.
func datasync(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// writeSync writes p at off and makes it durable, as pwrite and fdatasync do (RWF_DSYNC, Linux 4.7).
// It returns how many octets it has written. If the kernel or the file system does not support that,
// n is less than len(p) and err is nil.
func writeSync(f *os.File, p []byte, off int) (n int, err error) {
	for n < len(p) {
		m, err := unix.Pwritev2(int(f.Fd()), [][]byte{p[n:]}, int64(off+n), unix.RWF_DSYNC)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EOPNOTSUPP):
			return n, nil
		case err != nil:
			return n, err
		case m == 0:
			return n, io.ErrShortWrite
		}
		n += m
	}
	return n, nil
}

// block is the unit of direct writes in octets: the page of most machines, and the block of most
// file systems and disks.
const block = 4096

// takesDirect reports whether writes of whole blocks may bypass the page cache (STATX_DIOALIGN, Linux
// 6.1). File systems that would only pretend to do so do not report the alignment.
func takesDirect(f *os.File) bool {
	var st unix.Statx_t
	err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN, &st)
	return err == nil && st.Mask&unix.STATX_DIOALIGN != 0 && divides(st.Dio_mem_align) && divides(st.Dio_offset_align)
}

// divides reports whether blocks are multiples of n.
func divides(n uint32) bool { return n > 0 && block%n == 0 }

// reopen opens the file of f once more, past the page cache or not. Errors of writing back are reported to
// each opening by itself, so that to look for them in one does not hide them from the other.
func reopen(f *os.File, how int, direct bool) (*os.File, error) {
	if direct {
		how |= unix.O_DIRECT
	}
	return os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), how, 0)
}

// cached reports whether the page cache holds any of the n octets of f at off. Where the system does not tell,
// it says that it does.
func cached(f *os.File, off, n int) (bool, error) {
	page := os.Getpagesize()
	at := off - off%page
	if n += off - at; n == off-at {
		return false, nil
	}
	data, err := unix.Mmap(int(f.Fd()), int64(at), n, unix.PROT_READ, unix.MAP_SHARED) // touches no page
	if err != nil {
		return true, err
	}
	defer unix.Munmap(data)
	in := make([]byte, (n+page-1)/page)
	first := func(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, first(data), uintptr(n), first(in)); errno != 0 {
		return true, errno
	}
	return slices.ContainsFunc(in, func(b byte) bool { return b&1 != 0 }), nil
}

// pread is one system call.
func pread(f *os.File, b []byte, off int) (int, error) {
	for {
		n, err := unix.Pread(int(f.Fd()), b, int64(off))
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// stat returns the size, and whether the file has a name. It asks for nothing else: after a query for
// the time of the last change, the next write to the file has to record a new time (multigrain
// timestamps, Linux 6.13), and that costs a third of an fdatasync.
func stat(f *os.File) (size int64, named bool, err error) {
	const want = unix.STATX_SIZE | unix.STATX_NLINK
	var st unix.Statx_t
	switch err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, want, &st); {
	case errors.Is(err, unix.ENOSYS), err == nil && st.Mask&want != want:
		return fstat(f)
	case err != nil:
		return 0, false, err
	}
	return int64(st.Size), st.Nlink > 0, nil
}

func fstat(f *os.File) (size int64, named bool, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return 0, false, err
	}
	return st.Size, st.Nlink > 0, nil
}

// dropCache makes the system drop the clean cached pages of f.
func dropCache(f *os.File) error {
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}

// hole returns the offset of the first hole, or size if there is none.
func hole(f *os.File, size int) (int64, error) {
	off, err := unix.Seek(int(f.Fd()), 0, unix.SEEK_HOLE)
	if errors.Is(err, unix.EINVAL) {
		return int64(size), nil // the file system does not tell
	}
	return off, err
}
