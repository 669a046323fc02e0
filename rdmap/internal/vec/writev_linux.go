//go:build !race

package vec

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// read, writeOnce and retry do not tell the scheduler about the system call. The descriptor does not
// block, so a call takes as long as the copy, at most some 100 microseconds. To tell the scheduler
// would wake sysmon, which then looks every 20 microseconds and takes the processor away.
func read(fd int, p []byte) (int, error) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	return result(n, errno)
}

func writeOnce(fd int, p []byte) (int, error) {
	n, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	return result(n, errno)
}

func result(n uintptr, errno unix.Errno) (int, error) {
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

func (w *Writer) writev(fd int, vec [][]byte, flags int) (int, error) {
	w.iov = vector(w.iov, vec)
	if flags == 0 || len(w.iov) == 0 {
		return call(unix.SYS_WRITEV, fd, w.iov)
	}
	defer clear(w.iov)
	w.msg.Iov = &w.iov[0]
	w.msg.SetIovlen(len(w.iov))
	return retry(unix.SYS_SENDMSG, fd, unsafe.Pointer(&w.msg), flags)
}

func (r *Reader) readv(fd int, vec [][]byte) (int, error) {
	r.iov = vector(r.iov, vec)
	return call(unix.SYS_READV, fd, r.iov)
}

// vector returns an iovec for each piece of vec that is not empty, in the memory of iov.
func vector(iov []unix.Iovec, vec [][]byte) []unix.Iovec {
	iov = iov[:0]
	for _, p := range vec {
		if len(p) == 0 {
			continue
		}
		v := unix.Iovec{Base: &p[0]}
		v.SetLen(len(p))
		iov = append(iov, v)
	}
	return iov
}

// call makes a system call on iov, and then clears iov so that it keeps no memory alive.
func call(trap uintptr, fd int, iov []unix.Iovec) (int, error) {
	if len(iov) == 0 {
		return 0, nil
	}
	defer clear(iov)
	return retry(trap, fd, unsafe.Pointer(&iov[0]), len(iov))
}

// retry makes a system call until no signal interrupts it.
func retry(trap uintptr, fd int, p unsafe.Pointer, n int) (int, error) {
	for {
		done, _, errno := unix.RawSyscall(trap, uintptr(fd), uintptr(p), uintptr(n))
		if errno == 0 {
			return int(done), nil
		}
		if errno != unix.EINTR {
			return 0, errno
		}
	}
}
