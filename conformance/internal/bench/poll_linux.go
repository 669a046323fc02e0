package bench

import (
	"io"
	"net"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// looking returns c, a TCP connection, with a Read that polls for input for pollFor before it sleeps, and
// does nothing else: the least that busy polling can cost.
func looking(c net.Conn) net.Conn {
	tc, ok := c.(*net.TCPConn)
	if !ok {
		return c
	}
	rc, err := tc.SyscallConn()
	if err != nil {
		return c
	}
	return &lookingConn{TCPConn: tc, rc: rc}
}

type lookingConn struct {
	*net.TCPConn
	rc syscall.RawConn
}

func (c *lookingConn) Read(p []byte) (n int, err error) {
	start := time.Now()
	rerr := c.rc.Read(func(fd uintptr) bool {
		for {
			k, _, errno := unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
			switch {
			case errno == 0 && k == 0:
				err = io.EOF
				return true
			case errno == 0:
				n = int(k)
				return true
			case errno != unix.EAGAIN && errno != unix.EINTR:
				err = errno
				return true
			case time.Since(start) >= pollFor:
				return false
			}
		}
	})
	if err == nil {
		err = rerr
	}
	return n, err
}
