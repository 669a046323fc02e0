package execute

import (
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// hangup finds out whether a peer has closed its connection, although octets that it sent before have
// not been read.
type hangup struct {
	mu   sync.Mutex
	raw  syscall.RawConn // nil: not a socket
	poll func(fd uintptr)
	fds  [1]unix.PollFd
}

func (h *hangup) init(conn net.Conn) {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	h.raw = raw
	h.poll = func(fd uintptr) {
		h.fds[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLRDHUP}
		if _, err := unix.Poll(h.fds[:], 0); err != nil {
			h.fds[0].Revents = 0
		}
	}
}

// seen reports whether the peer has closed or reset the connection, or this side has closed it.
func (h *hangup) seen() bool {
	if h.raw == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.raw.Control(h.poll) != nil || h.fds[0].Revents != 0
}
