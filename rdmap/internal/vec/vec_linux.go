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
	msg unix.Msghdr // of a call with MSG_MORE
}

// Writev writes the pieces of vec, at most the first Max, in one system call. vec is not empty, and
// is borrowed. n may be less than the length of the pieces. err is a syscall.Errno; EINTR is retried.
// more means that another call follows at once: a socket then does not send a segment that is not
// full. more is for sockets only.
func (w *Writer) Writev(fd int, vec [][]byte, more bool) (n int, err error) {
	if len(vec) > 1 || more {
		return w.writev(fd, vec[:min(len(vec), Max)], more)
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
