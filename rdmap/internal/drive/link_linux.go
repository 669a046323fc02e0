package drive

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/vec"
	"golang.org/x/sys/unix"
)

// NewLink returns the link for nc. TCP connections are read and written through their descriptors.
func NewLink(nc net.Conn) Link {
	tc, ok := nc.(*net.TCPConn)
	if !ok {
		return NewStream(nc)
	}
	rc, err := tc.SyscallConn()
	if err != nil {
		return NewStream(nc)
	}
	l := &tcpLink{tc: tc, rc: rc}
	l.nc = tc
	l.yield = yield{sched: schedYield, pause: &processPause}
	l.readFn = l.tryRead
	l.writeFn = l.tryWrite
	return l
}

// tcpLink is TCP on Linux: reads and writes can be tried, and the epoll of the process watches idle connections.
type tcpLink struct {
	Stream
	tc *net.TCPConn
	rc syscall.RawConn

	// Arguments and results of readFn, which is made once: a closure per call would
	// be an allocation per call.
	readFn  func(fd uintptr) bool
	to      Source
	wait    bool
	readN   int
	readErr error
	octets  uint64 // received so far
	yield   yield
	in      vec.Reader

	writeMu  sync.Mutex // a late writer may still be inside when the next one comes
	writeFn  func(fd uintptr) bool
	batch    *buf.Batch
	block    bool
	limit    time.Duration
	again    bool
	writeErr error
	out      vec.Writer
	armed    bool // a write deadline is set

	reg registration
}

func (l *tcpLink) Read(to Source, wait bool) (int, error) {
	l.to, l.wait, l.readN, l.readErr = to, wait, 0, nil
	err := l.rc.Read(l.readFn)
	l.to = nil
	if err != nil {
		return 0, ReadError(err)
	}
	l.octets += uint64(l.readN)
	return l.readN, l.readErr
}

// tryRead reads once. It reports whether l.rc.Read is done; if not, it is called again when there is
// input.
func (l *tcpLink) tryRead(fd uintptr) bool {
	flat, places := l.to.Room(false)
	var n int
	var err error
	if places != nil {
		n, err = l.in.Readv(int(fd), places)
	} else {
		n, err = vec.Read(int(fd), flat)
	}
	l.to.Got(max(n, 0))
	if n > 0 {
		l.readN = n
		return true
	}
	switch {
	case errors.Is(err, unix.EAGAIN):
		if l.wait && l.yield.again(l.octets) {
			return l.tryRead(fd)
		}
		return !l.wait
	case err == nil:
		l.readErr = io.EOF
	default:
		l.readErr = os.NewSyscallError("read", err)
	}
	return true
}

// ParkRoom returns 1: one octet is enough to notice that there is more.
func (l *tcpLink) ParkRoom(int, int) int { return 1 }

func (l *tcpLink) Write(b *buf.Batch, p Patience, limit time.Duration) (done bool, err error) {
	again, err := l.writeBatch(b, p == Always, limit)
	if l.armed && p == Always {
		l.armed = false
		_ = l.tc.SetWriteDeadline(time.Time{})
	}
	return !again, err
}

func (l *tcpLink) writeBatch(b *buf.Batch, block bool, limit time.Duration) (again bool, err error) {
	l.writeMu.Lock()
	defer l.writeMu.Unlock()
	l.batch, l.block, l.limit, l.again, l.writeErr = b, block, limit, false, nil
	err = l.rc.Write(l.writeFn)
	l.batch = nil
	if err != nil {
		return false, err
	}
	return l.again, l.writeErr
}

// tryWrite writes until all is written or the socket is full.
func (l *tcpLink) tryWrite(fd uintptr) bool {
	for len(l.batch.Unwritten()) > 0 {
		n, err := l.out.Writev(int(fd), l.batch.Next(), flags(l.batch))
		if n > 0 {
			l.batch.Advance(n)
			continue
		}
		if errors.Is(err, unix.EAGAIN) {
			if !l.block {
				l.again = true
				return true
			}
			// The deadline bounds a wait without progress, so it moves with each wait.
			l.armed = true
			_ = l.tc.SetWriteDeadline(time.Now().Add(l.limit))
			return false
		}
		if err == nil {
			err = io.ErrShortWrite
		}
		l.writeErr = os.NewSyscallError("write", err)
		return true
	}
	return true
}

// flags returns those of sendmsg(2) for the next write of b.
func flags(b *buf.Batch) int {
	switch {
	case b.EndsSegments():
		return unix.MSG_EOR
	case b.Follows():
		return unix.MSG_MORE
	}
	return 0
}

func (l *tcpLink) Shared() bool     { return true }
func (l *tcpLink) CloseWrite() bool { return l.tc.CloseWrite() == nil }

// EMSS returns the kernel's current segment size without options, octets.
func (l *tcpLink) EMSS() int {
	n := DefaultEMSS
	_ = l.rc.Control(func(fd uintptr) {
		if v, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG); err == nil && v > 0 {
			n = v
		}
	})
	return n
}

func (l *tcpLink) Watch(ready func()) bool {
	return l.reg.arm(ready, l.rc, unix.EPOLLIN|unix.EPOLLRDHUP)
}

func (l *tcpLink) Unwatch() { l.reg.disarm(unix.EPOLLRDHUP) }
func (l *tcpLink) Forget()  { l.reg.remove() }
