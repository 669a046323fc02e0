package drive

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

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

// registration is a connection's entry in the poller. One goroutine at a time uses it. The descriptor is valid until the
// connection is closed, and remove is called before that.
type registration struct {
	id int32 // 0: not registered
	fd int
}

// arm makes the poller call ready once, in a goroutine of its own, when one of the events occurs. It reports false if
// there are no descriptors or memory left.
func (g *registration) arm(ready func(), rc syscall.RawConn, events uint32) bool {
	if g.id != 0 {
		idle.modify(g, events)
		return true
	}
	fd := -1
	if rc.Control(func(f uintptr) { fd = int(f) }) != nil {
		return true // closed in the meantime; whoever did that ends the connection
	}
	g.fd = fd
	if !idle.add(g, ready, events) {
		g.id = 0
	}
	return g.id != 0
}

// disarm leaves the entry with only these events.
func (g *registration) disarm(events uint32) {
	if g.id != 0 {
		idle.modify(g, events)
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
	if unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, g.fd, p.event(g, events)) != nil {
		p.stopIfIdle()
		return false
	}
	p.conns[g.id] = ready
	return true
}

// event returns a one-shot event: after one report there is no other until the connection has been
// looked at and armed again.
func (p *poller) event(g *registration, events uint32) *unix.EpollEvent {
	return &unix.EpollEvent{Events: events | unix.EPOLLONESHOT, Fd: g.id}
}

func (p *poller) modify(g *registration, events uint32) {
	_ = unix.EpollCtl(p.fd, unix.EPOLL_CTL_MOD, g.fd, p.event(g, events))
}

func (p *poller) remove(g *registration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = unix.EpollCtl(p.fd, unix.EPOLL_CTL_DEL, g.fd, nil)
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
