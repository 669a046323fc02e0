// Package vec is writev(2) without an allocation per call.
package vec

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Max is the largest number of pieces that one call moves; the kernel's limit is 1024.
const Max = 512

// Writer holds the arguments of a call. It belongs to one goroutine at a time. The
// zero value is ready.
type Writer struct {
	iov []unix.Iovec
	msg unix.Msghdr // of a call with flags
}

// Writev writes the pieces of vec, at most the first Max, in one system call. vec is not empty, and
// is borrowed. n may be less than the length of the pieces. err is a syscall.Errno; EINTR is retried.
// flags are those of sendmsg(2), for sockets only: with MSG_MORE another call follows at once, and a
// segment that is not full is not sent before it; with MSG_EOR the last octet of vec ends a segment,
// if all of vec was written.
func (w *Writer) Writev(fd int, vec [][]byte, flags int) (n int, err error) {
	if len(vec) > Max {
		vec, flags = vec[:Max], flags&^unix.MSG_EOR
	}
	if len(vec) > 1 || flags != 0 {
		return w.writev(fd, vec, flags)
	}
	return write(fd, vec[0])
}

// Reader holds the arguments of a call. It belongs to one goroutine at a time. The zero
// value is ready.
type Reader struct{ iov []unix.Iovec }

// Readv is readv(2) on a non-blocking descriptor, into at most the first Max pieces of vec; EINTR
// is retried. Empty pieces are skipped.
func (r *Reader) Readv(fd int, vec [][]byte) (int, error) {
	n, err := r.readv(fd, vec[:min(len(vec), Max)])
	return max(n, 0), err
}

// Read is read(2) on a non-blocking descriptor; EINTR is retried.
func Read(fd int, p []byte) (int, error) {
	for {
		if n, err := read(fd, p); !errors.Is(err, unix.EINTR) {
			return max(n, 0), err
		}
	}
}

func write(fd int, p []byte) (int, error) {
	for {
		if n, err := writeOnce(fd, p); !errors.Is(err, unix.EINTR) {
			return max(n, 0), err
		}
	}
}
