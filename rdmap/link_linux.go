package rdmap

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/stag-rdma/stag/internal/quick"
	"github.com/stag-rdma/stag/internal/reading"
	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"golang.org/x/sys/unix"
)

// newLink returns the link for nc. TCP connections are read and written through their descriptors.
func newLink(nc net.Conn) link {
	tc, ok := nc.(*net.TCPConn)
	if !ok {
		return newStream(nc)
	}
	in := reading.NewTCP(tc)
	if in == nil {
		return newStream(nc)
	}
	l := &tcpLink{TCP: in, tc: tc}
	l.writeFn = l.tryWrite
	return l
}

// tcpLink is TCP on Linux: reads and writes can be tried.
type tcpLink struct {
	*reading.TCP
	tc *net.TCPConn

	// Arguments and results of writeFn, which is made once: a closure per call would be an allocation per call.
	writeMu  sync.Mutex // a late writer may still be inside when the next one comes
	writeFn  func(fd uintptr) bool
	batch    *buf.Batch
	block    bool
	limit    time.Duration
	again    bool
	writeErr error
	out      quick.Vectors
	armed    bool // a write deadline is set
}

// ParkRoom returns 1: one octet is enough to notice that there is more.
func (l *tcpLink) ParkRoom(int, int) int { return 1 }

func (l *tcpLink) Write(b *buf.Batch, p patience, limit time.Duration) (done bool, err error) {
	again, err := l.writeBatch(b, p == always, limit)
	if l.armed && p == always {
		l.armed = false
		_ = l.tc.SetWriteDeadline(time.Time{})
	}
	return !again, err
}

func (l *tcpLink) writeBatch(b *buf.Batch, block bool, limit time.Duration) (again bool, err error) {
	l.writeMu.Lock()
	defer l.writeMu.Unlock()
	l.batch, l.block, l.limit, l.again, l.writeErr = b, block, limit, false, nil
	err = l.Raw.Write(l.writeFn)
	l.batch = nil
	if err != nil {
		return false, err
	}
	return l.again, l.writeErr
}

// tryWrite writes until all is written or the socket is full.
func (l *tcpLink) tryWrite(fd uintptr) bool {
	for len(l.batch.Unwritten()) > 0 {
		n, err := l.out.Write(int(fd), l.batch.Next(), flags(l.batch))
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

func (l *tcpLink) CloseWrite() bool { return l.tc.CloseWrite() == nil }

// EMSS returns the kernel's current segment size without options, octets.
func (l *tcpLink) EMSS() int {
	n := defaultEMSS
	_ = l.Raw.Control(func(fd uintptr) {
		if v, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG); err == nil && v > 0 {
			n = v
		}
	})
	return n
}
