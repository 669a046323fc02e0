package execute

import (
	"net"
	"sync"
	"syscall"

	"github.com/stag-rdma/stag/internal/quick"
	"golang.org/x/sys/unix"
)

// hangup finds out whether a peer has closed its connection, although octets that it sent before have
// not been read.
type hangup struct {
	mu   sync.Mutex
	raw  syscall.RawConn // nil: not a socket
	poll func(fd uintptr)
	got  int16 // what poll has found
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
		h.got, _ = quick.Poll(int(fd), unix.POLLRDHUP)
	}
}

// seen reports whether the peer has closed or reset the connection, or this side has closed it.
func (h *hangup) seen() bool {
	if h.raw == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.raw.Control(h.poll) != nil || h.got != 0
}
