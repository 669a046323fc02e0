package rdmap

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

// newLink returns the link for nc. TCP connections are read and written through their descriptors.
func newLink(nc net.Conn) link {
	tc, ok := nc.(*net.TCPConn)
	if !ok {
		return newAnyLink(nc)
	}
	rc, err := tc.SyscallConn()
	if err != nil {
		return newAnyLink(nc)
	}
	return newTCPLink(tc, rc)
}

// tcpLink is TCP on Linux: staging is borrowed only when there is input, writes can be tried, and the
// epoll of the process watches idle connections.
type tcpLink struct {
	tc *net.TCPConn
	rc syscall.RawConn

	// Arguments and results of readFn, which is made once: a closure per call would
	// be an allocation per call.
	readFn   func(fd uintptr) bool
	reader   *Conn
	wait     bool
	readN    int
	readErr  error
	poll     polling
	taker    taker
	writeMu  sync.Mutex // a late flusher may still be inside when the next one comes
	writeFn  func(fd uintptr) bool
	batch    *buf.Batch
	block    bool
	timeout  time.Duration
	again    bool
	writeErr error
	vec      vec.Writer
	in       vec.Reader
	armed    bool // a write deadline is set

	reg registration
}

func newTCPLink(tc *net.TCPConn, rc syscall.RawConn) *tcpLink {
	l := &tcpLink{tc: tc, rc: rc}
	l.taker = taker{yield: schedYield, pause: &processTakers}
	l.readFn = l.tryRead
	l.writeFn = l.tryWrite
	return l
}

func (l *tcpLink) read(c *Conn, wait bool) (int, error) {
	l.reader, l.wait, l.readN, l.readErr = c, wait, 0, nil
	l.poll.begin(c.cfg.BusyPoll, wait)
	if err := l.rc.Read(l.readFn); err != nil {
		return 0, readError(err)
	}
	return l.readN, l.readErr
}

// tryRead reads once. It reports whether l.rc.Read is done; if not, it is called again when there is
// input.
func (l *tcpLink) tryRead(fd uintptr) bool {
	c := l.reader
	st, mine := c.st, false
	if st == nil {
		st, mine = buf.NewStaging(buf.Big), true
	}
	n, err, direct := l.readDirect(c, st, int(fd))
	if !direct {
		var buf []byte
		st, buf = roomFor(c, st)
		if mine && c.cfg.BusyPoll <= 0 && c.snd.long.Load() > 0 {
			buf = buf[:shortRead]
		}
		if n, err = l.poll.read(c, int(fd), buf); n > 0 {
			st.W += n
		}
	}
	if n > 0 {
		c.st, l.readN = st, n
		return true
	}
	if mine {
		st.Release()
	} else {
		c.st = st
	}
	switch {
	case errors.Is(err, unix.EAGAIN):
		if l.wait && l.taker.again(c.rcv.in.octets) {
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

// readDirect reads payloads straight into their place if that is possible.
func (l *tcpLink) readDirect(c *Conn, st *buf.Staging, fd int) (n int, err error, tried bool) {
	if len(st.B) < buf.Big || st.R == st.W || c.cfg.BusyPoll > 0 {
		return 0, nil, false
	}
	vec := c.aim(st)
	if vec == nil {
		return 0, nil, false
	}
	if n, err = l.in.Readv(fd, vec); n > 0 {
		c.landed(st, n)
	} else {
		c.direct.missed()
	}
	return n, err, true
}

// roomFor is staging.room for a read that may find no input: a parked staging is filled before a big one
// replaces it.
func roomFor(c *Conn, st *buf.Staging) (*buf.Staging, []byte) {
	if len(st.B) < buf.Big {
		if st.W < len(st.B) {
			return st, st.B[st.W:]
		}
		st = st.Move(buf.Big)
	}
	return st.Room(c.df.Need(st.Pending()))
}

// parkRoom returns 1: one octet is enough to notice that there is more.
func (l *tcpLink) parkRoom(int, int) int { return 1 }

func (l *tcpLink) try(b *buf.Batch) (again, ok bool, err error) {
	again, err = l.writeBatch(b, false, 0)
	return again, true, err
}

func (l *tcpLink) write(b *buf.Batch, timeout time.Duration) error {
	_, err := l.writeBatch(b, true, timeout)
	if l.armed {
		l.armed = false
		_ = l.tc.SetWriteDeadline(noDeadline)
	}
	return err
}

func (l *tcpLink) writeBatch(b *buf.Batch, block bool, timeout time.Duration) (again bool, err error) {
	l.writeMu.Lock()
	defer l.writeMu.Unlock()
	l.batch, l.block, l.timeout, l.again, l.writeErr = b, block, timeout, false, nil
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
		n, err := l.vec.Writev(int(fd), l.batch.Next(), flags(l.batch))
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
			_ = l.tc.SetWriteDeadline(time.Now().Add(l.timeout))
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

func (l *tcpLink) process() bool    { return true }
func (l *tcpLink) closeWrite() bool { return l.tc.CloseWrite() == nil }

// emss returns the kernel's current segment size without options, octets.
func (l *tcpLink) emss() int {
	n := defaultEMSS
	_ = l.rc.Control(func(fd uintptr) {
		if v, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG); err == nil && v > 0 {
			n = v
		}
	})
	return n
}

// watch is called with the role free, so that nobody is polling.
func (l *tcpLink) watch(c *Conn) {
	if l.poll.muted {
		_ = l.rc.Control(func(fd uintptr) { l.poll.mute(int(fd), false) })
	}
	l.reg.arm(c, l.rc, unix.EPOLLIN|unix.EPOLLRDHUP)
}

func (l *tcpLink) unwatch(c *Conn) { l.reg.disarm(unix.EPOLLRDHUP) }
func (l *tcpLink) forget(c *Conn)  { l.reg.remove() }
