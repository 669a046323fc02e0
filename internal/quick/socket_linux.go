package quick

import (
	"errors"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxPieces is the largest number of pieces that one call moves; the kernel's limit is 1024.
const maxPieces = 512

// Read is read(2) on a descriptor that does not block. EINTR is retried, here and below.
func Read(fd int, p []byte) (int, error) {
	if raceDetector {
		return retried(func() (int, error) { return syscall.Read(fd, p) })
	}
	return call(unix.SYS_READ, fd, unsafe.Pointer(unsafe.SliceData(p)), len(p))
}

// Write is write(2) on a descriptor that does not block.
func Write(fd int, p []byte) (int, error) {
	if raceDetector {
		return retried(func() (int, error) { return syscall.Write(fd, p) })
	}
	return call(unix.SYS_WRITE, fd, unsafe.Pointer(unsafe.SliceData(p)), len(p))
}

// Vectors holds the arguments of calls for several pieces, so that a call allocates nothing. It belongs to one goroutine
// at a time.
type Vectors struct {
	iov []unix.Iovec
	msg unix.Msghdr // of a write with flags
}

// Read is readv(2) on a descriptor that does not block, into at most the first maxPieces of vec. Empty pieces are skipped.
func (v *Vectors) Read(fd int, vec [][]byte) (int, error) {
	vec = vec[:min(len(vec), maxPieces)]
	if raceDetector {
		return pieces(vec, func(p []byte) (int, error) { return Read(fd, p) })
	}
	if v.fill(vec); len(v.iov) == 0 {
		return 0, nil
	}
	defer clear(v.iov) // it must keep no memory alive
	return call(unix.SYS_READV, fd, unsafe.Pointer(&v.iov[0]), len(v.iov))
}

// Write writes the pieces of vec, at most the first maxPieces, in one system call. vec is not empty, and is borrowed. n
// may be less than the length of the pieces. flags are those of sendmsg(2), for sockets only: with MSG_MORE another call
// follows at once, and a segment that is not full is not sent before it; with MSG_EOR the last octet of vec ends a
// segment, if all of vec was written.
func (v *Vectors) Write(fd int, vec [][]byte, flags int) (n int, err error) {
	if len(vec) > maxPieces {
		vec, flags = vec[:maxPieces], flags&^unix.MSG_EOR // its last octet is not the last
	}
	if len(vec) == 1 && flags == 0 {
		return Write(fd, vec[0])
	}
	if raceDetector {
		return pieces(vec, func(p []byte) (int, error) { return Write(fd, p) })
	}
	if v.fill(vec); len(v.iov) == 0 {
		return 0, nil
	}
	defer clear(v.iov)
	if flags == 0 {
		return call(unix.SYS_WRITEV, fd, unsafe.Pointer(&v.iov[0]), len(v.iov))
	}
	v.msg.Iov = &v.iov[0]
	v.msg.SetIovlen(len(v.iov))
	return call(unix.SYS_SENDMSG, fd, unsafe.Pointer(&v.msg), flags)
}

// fill makes an iovec for each piece of vec that is not empty.
func (v *Vectors) fill(vec [][]byte) {
	v.iov = v.iov[:0]
	for _, p := range vec {
		if len(p) == 0 {
			continue
		}
		e := unix.Iovec{Base: &p[0]}
		e.SetLen(len(p))
		v.iov = append(v.iov, e)
	}
}

// Poll returns those of the events, and of POLLERR, POLLHUP and POLLNVAL, that a socket has now.
func Poll(fd int, events int16) (int16, error) {
	p := unix.PollFd{Fd: int32(fd), Events: events}
	// ppoll, since some machines have no poll. A time limit of 0 is written as one that has no octet set.
	var now unix.Timespec
	_, _, errno := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&p)), 1, uintptr(unsafe.Pointer(&now)), 0, 0, 0)
	if errno != 0 && errno != unix.EINTR {
		return 0, errno
	}
	return p.Revents, nil
}

// call makes a system call until no signal interrupts it.
func call(trap uintptr, fd int, p unsafe.Pointer, n int) (int, error) {
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

func retried(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); !errors.Is(err, unix.EINTR) {
			return max(n, 0), err
		}
	}
}

// pieces moves the pieces of vec until one is moved only in part. err is nil if anything was moved.
func pieces(vec [][]byte, move func(p []byte) (int, error)) (n int, err error) {
	for _, p := range vec {
		if len(p) == 0 {
			continue
		}
		k, err := move(p)
		n += k
		if k < len(p) {
			if n > 0 {
				err = nil
			}
			return n, err
		}
	}
	return n, nil
}
