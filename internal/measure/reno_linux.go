package measure

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Reno sets the congestion control of a socket before it connects or listens;
// accepted connections inherit it. A system without reno keeps its own.
func Reno(_, _ string, rc syscall.RawConn) error {
	return rc.Control(func(fd uintptr) {
		_ = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno")
	})
}
