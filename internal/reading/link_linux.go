package reading

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stag-rdma/stag/internal/quick"
	"golang.org/x/sys/unix"
)

// NewLink returns the Link for nc.
func NewLink(nc net.Conn) Link {
	if tc, ok := nc.(*net.TCPConn); ok {
		if l := NewTCP(tc); l != nil {
			return l
		}
	}
	return NewStream(nc)
}

// TCP is TCP on Linux: reads can be tried, and the epoll of the process watches idle connections.
type TCP struct {
	Stream
	Raw syscall.RawConn // of the connection

	// Arguments and results of readFn, which is made once: a closure per call would
	// be an allocation per call.
	readFn  func(fd uintptr) bool
	to      Source
	wait    bool
	readN   int
	readErr error
	octets  uint64 // received so far
	yield   yield
	in      quick.Vectors

	reg registration
}

// NewTCP returns the Link of a connection, nil if it has no descriptor.
func NewTCP(tc *net.TCPConn) *TCP {
	rc, err := tc.SyscallConn()
	if err != nil {
		return nil
	}
	l := &TCP{Raw: rc}
	l.nc = tc
	l.yield = yield{sched: schedYield, pause: &processPause}
	l.readFn = l.tryRead
	return l
}

// Read implements Link.
func (l *TCP) Read(to Source, wait bool) (int, error) {
	l.to, l.wait, l.readN, l.readErr = to, wait, 0, nil
	err := l.Raw.Read(l.readFn)
	l.to = nil
	if err != nil {
		return 0, ReadError(err)
	}
	l.octets += uint64(l.readN)
	return l.readN, l.readErr
}

// tryRead reads once. It reports whether l.Raw.Read is done; if not, it is called again when there is
// input.
func (l *TCP) tryRead(fd uintptr) bool {
	flat, places := l.to.Room(false)
	var n int
	var err error
	if places != nil {
		n, err = l.in.Read(int(fd), places)
	} else {
		n, err = quick.Read(int(fd), flat)
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

// Shared reports true.
func (l *TCP) Shared() bool { return true }

// Watch implements Link.
func (l *TCP) Watch(ready func()) bool {
	return l.reg.arm(ready, l.Raw, unix.EPOLLIN|unix.EPOLLRDHUP)
}

// Unwatch implements Link.
func (l *TCP) Unwatch() { l.reg.disarm(unix.EPOLLRDHUP) }

// Forget implements Link.
func (l *TCP) Forget() { l.reg.remove() }

// poller is the process-wide watcher of idle TCP connections: an epoll instance of its own, which
// itself is parked in Go's poller. It exists while connections are registered.
//
// Go's poller alone would not do: while the Read of a connection is parked it holds the read lock, so
// that nobody else can read from the descriptor.
type poller struct {
	mu    sync.Mutex
	f     *os.File // the epoll instance; nil if no connection is registered
	fd    int
	conns map[int32]func() // what to call
	next  int32
}

var idle poller

// registration is a connection's entry in the poller. One goroutine at a time uses it.
type registration struct {
	id  int32 // 0: not registered
	raw syscall.RawConn
	// Arguments and result of do, which is made once.
	op     int
	events uint32
	err    error
	do     func(fd uintptr)
}

// arm makes the poller call ready once, in a goroutine of its own, when one of the events occurs. It reports false if
// there are no descriptors or memory left.
func (g *registration) arm(ready func(), rc syscall.RawConn, events uint32) bool {
	if g.id != 0 {
		_ = g.control(unix.EPOLL_CTL_MOD, events) // it is there
		return true
	}
	g.raw = rc
	if !idle.add(g, ready, events) {
		g.id = 0
		return false
	}
	return true
}

// control changes the entry. If the connection has been closed, it does nothing: the kernel has forgotten the entry, and
// the descriptor may be that of another connection by now, which would lose its own.
func (g *registration) control(op int, events uint32) error {
	if g.do == nil {
		g.do = func(fd uintptr) {
			// One-shot: after one report there is no other until the connection has been looked at and armed again.
			e := unix.EpollEvent{Events: g.events | unix.EPOLLONESHOT, Fd: g.id}
			g.err = unix.EpollCtl(idle.fd, g.op, int(fd), &e)
		}
	}
	g.op, g.events, g.err = op, events, nil
	_ = g.raw.Control(g.do) // fails only on a closed connection; whoever has closed it ends it
	return g.err
}

// disarm leaves the entry with only these events.
func (g *registration) disarm(events uint32) {
	if g.id != 0 {
		_ = g.control(unix.EPOLL_CTL_MOD, events) // it is there
	}
}

func (g *registration) remove() {
	if g.id != 0 {
		idle.remove(g)
		g.id = 0
	}
}

func (p *poller) add(g *registration, ready func(), events uint32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.f == nil && !p.start() {
		return false
	}
	p.next++
	if p.next <= 0 {
		p.next = 1
	}
	for p.conns[p.next] != nil {
		p.next++
	}
	g.id = p.next
	if g.control(unix.EPOLL_CTL_ADD, events) != nil {
		p.stopIfIdle()
		return false
	}
	p.conns[g.id] = ready
	return true
}

func (p *poller) remove(g *registration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = g.control(unix.EPOLL_CTL_DEL, 0) // it is there
	delete(p.conns, g.id)
	p.stopIfIdle()
}

// start makes the epoll instance and the goroutine that waits on it.
func (p *poller) start() bool {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return false
	}
	_ = unix.SetNonblock(fd, true) // makes os.NewFile use Go's poller
	f := os.NewFile(uintptr(fd), "epoll")
	rc, err := f.SyscallConn()
	if err != nil {
		_ = f.Close()
		return false
	}
	p.f, p.fd, p.conns = f, fd, make(map[int32]func())
	go p.run(f, fd, rc)
	return true
}

func (p *poller) stopIfIdle() {
	if len(p.conns) == 0 && p.f != nil {
		_ = p.f.Close() // ends run
		p.f, p.conns = nil, nil
	}
}

// run dispatches events until the epoll instance is closed.
func (p *poller) run(f *os.File, fd int, rc syscall.RawConn) {
	var events [64]unix.EpollEvent
	var n int
	wait := func(uintptr) bool {
		var err error
		n, err = unix.EpollWait(fd, events[:], 0)
		return n > 0 || err != nil && err != unix.EINTR
	}
	for rc.Read(wait) == nil {
		for i := range max(n, 0) {
			if ready := p.find(f, events[i].Fd); ready != nil {
				go ready()
			}
		}
	}
}

func (p *poller) find(f *os.File, id int32) func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.f != f {
		return nil
	}
	return p.conns[id]
}

// yield makes a connection look for input once more before it sleeps, after letting others have the
// processor. One of them may be the peer, about to write; then neither of the two goes to sleep. To be
// woken costs both of them more than that, the writer too.
//
// This is not done if much arrives at a time: what is taken one by one is answered one by one, in more
// writes, and goroutines of this process may need the processor. Nor is it done while others compute
// on the processor: to wait for them takes a hundred times as long as to be woken.
//
// It belongs to the reader.
type yield struct {
	octets uint64 // received when the last wait began
	sched  func()
	pause  *yieldPause
}

const (
	// yieldMost is how many octets may have arrived since the wait before.
	yieldMost = 1 << 10
	// yieldLong is how long others may run: longer than a peer needs, shorter than the kernel's
	// time slices for threads that compute.
	yieldLong = 300 * time.Microsecond
	// yieldRest is how long nobody lets others run after some have run for longer than that.
	yieldRest = 100 * time.Millisecond
)

// yieldPause is the time before which nobody in a process lets others run.
type yieldPause struct{ until atomic.Int64 } // Unix time in nanoseconds

var processPause yieldPause

// schedYield lets other threads run that wait for the processor.
func schedYield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// again reports whether a connection that has found nothing to read and is about to wait should look
// once more; if so, it lets others run first. octets is the number received so far.
func (t *yield) again(octets uint64) bool {
	got := octets - t.octets
	t.octets = octets
	if got == 0 || got > yieldMost {
		return false
	}
	begun := time.Now()
	if begun.UnixNano() < t.pause.until.Load() {
		return false
	}
	t.sched()
	if time.Since(begun) > yieldLong {
		t.pause.until.Store(time.Now().Add(yieldRest).UnixNano())
	}
	return true
}
