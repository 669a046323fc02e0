package rdmap

import (
	"errors"
	"sync"

	"github.com/stag-rdma/stag/rdmap/internal/drive"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// reader is the reading role of a Conn and those who wait for it. Whoever leaves, for whatever reason, and finds the role
// free and the queue not empty, wakes the first waiter. A wake is a hint: whoever is woken checks again.
type reader struct {
	mu sync.Mutex
	drive.Reader
	waiters // in order of arrival
	woken   chain
	freed   chan struct{} // made by whoever waits for the role to be released; closed then
}

// leave is called by whoever leaves, with mu held, and unlocks it.
func (r *reader) leave() {
	if r.State() == drive.Free && r.first != nil {
		r.first.wake()
	}
	r.mu.Unlock()
}

// wakeAll makes everybody who waits check again, with mu held.
func (r *reader) wakeAll() {
	for w := r.first; w != nil; w = w.next {
		w.wake()
	}
}

// act carries out what a change of the reader asks for, with reader.mu held.
func (c *Conn) act(a drive.ReaderAction) {
	if a&drive.Unwatch != 0 {
		c.link.Unwatch()
	}
	if a&drive.Interrupt != 0 {
		c.interrupt()
	}
	if a&drive.AddTick != 0 {
		c.tick.Add((*activity)(c))
	}
	if a&drive.Again != 0 {
		go c.readable()
	}
	if a&drive.Watch != 0 && !c.link.Watch(c.ready) {
		c.reader.Park()
		go c.parked()
	}
}

// release gives the role back, with reader.mu held. rest: if nobody waits, input is to be noticed.
func (c *Conn) release(rest bool) {
	r := &c.reader
	c.clearInterrupt()
	if r.freed != nil {
		close(r.freed)
		r.freed = nil
	}
	c.act(r.Release(rest && r.first == nil && !c.ended()))
}

// freeReader is release for a goroutine that has waited.
func (c *Conn) freeReader() {
	c.reader.mu.Lock()
	c.release(false)
	c.reader.leave()
}

// called is called when a call begins. On an active connection callers read for themselves, until a tick finds that no
// call has begun since the last tick.
func (c *Conn) called() {
	if !c.reader.Recent() {
		c.firstCall()
	}
}

// firstCall is called for the first call since a tick.
func (c *Conn) firstCall() {
	r := &c.reader
	if !r.Active() {
		c.mu.Lock()
		inside := c.writer.Corked()
		c.mu.Unlock()
		if inside || !c.snd.State().Up() {
			return // a post inside an upcall is no call, and its reader is busy
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c.act(r.Call())
	r.Called()
}

// activity is a Conn as its ticker sees it while it is active.
type activity Conn

// Tick implements drive.Ticked.
func (a *activity) Tick() bool {
	c := (*Conn)(a)
	r := &c.reader
	if r.TickRecent() {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	do, more := r.Tick(r.first != nil)
	c.act(do)
	return more
}

// readable is called, in a goroutine of its own, when the watched connection has input. It reads
// everything that has arrived, and makes the connection watched again.
func (c *Conn) readable() {
	r := &c.reader
	r.mu.Lock()
	mine := r.Notice()
	r.mu.Unlock()
	if !mine {
		return
	}
	for {
		n, err := c.readOnce(false)
		if errors.Is(err, errLostRole) {
			return
		}
		if err != nil && !errors.Is(err, drive.ErrInterrupted) {
			break // the connection has failed
		}
		if n == 0 {
			break
		}
	}
	c.rearm()
}

// rearm gives the role back when a watcher is done.
func (c *Conn) rearm() {
	blocked := c.rcv.Backlog.Full() // memoryBack will see to it
	c.reader.mu.Lock()
	c.release(!blocked)
	c.reader.leave()
}

// parked is the watcher of a link that has no other. It reads until somebody wants the role.
func (c *Conn) parked() {
	r := &c.reader
	for {
		_, err := c.readOnce(true)
		if err == nil {
			continue
		}
		if errors.Is(err, errLostRole) {
			return
		}
		r.mu.Lock()
		if !errors.Is(err, drive.ErrInterrupted) || c.ended() || r.Wanted(r.first != nil) {
			break
		}
		c.clearInterrupt()
		r.mu.Unlock()
	}
	c.release(false)
	r.leave()
}

// interruptWaiter makes a goroutine return that waits for input in Wait.
func (c *Conn) interruptWaiter() {
	c.reader.mu.Lock()
	defer c.reader.mu.Unlock()
	if c.reader.State() == drive.Waiter {
		c.interrupt()
	}
}

// interrupt makes a reader that waits return, with reader.mu held. At the end of the connection finish owns the read
// deadline.
func (c *Conn) interrupt() {
	if c.reader.State() >= drive.Drainer {
		return
	}
	c.link.Interrupt()
	if h := c.wake.hint; h != nil {
		hint(h)
	}
}

// clearInterrupt makes reads wait again, with reader.mu held. After a failure they must not wait.
func (c *Conn) clearInterrupt() {
	if !c.ended() {
		c.link.Resume()
	}
}

// Serve gives the reading role to the calling goroutine until the connection ends, and returns the
// reason for the end: a *ConnError with io.EOF means that the peer closed the connection. If an
// upcall hands the role off, or the watchdog takes it, another goroutine continues to read. In any
// case Serve returns at the end of the connection. Errors before that: ErrNoHandshake, ErrServing.
func (c *Conn) Serve() error {
	if err := c.startServing(); err != nil {
		return err
	}
	c.serve()
	<-c.done
	return c.Err()
}

func (c *Conn) startServing() error {
	if err := c.begun(); err != nil {
		return err
	}
	r := &c.reader
	r.mu.Lock()
	defer r.mu.Unlock()
	do, ok := r.Serve()
	if !ok {
		return verbs.ErrServing
	}
	c.act(do)
	var w Waiter
	w.Reset()
	for !r.Take(drive.Server) {
		if c.ended() {
			return nil
		}
		r.enqueue(&w)
		r.mu.Unlock()
		<-w.ch
		r.mu.Lock()
		w.dequeue()
	}
	c.link.Forget()
	return nil
}

// serve reads until the connection fails or the role is lost.
func (c *Conn) serve() {
	for c.reader.State() == drive.Server {
		_, err := c.readOnce(true)
		switch {
		case err == nil:
			continue
		case errors.Is(err, errLostRole):
			return
		case errors.Is(err, drive.ErrInterrupted) && !c.ended():
			c.reader.mu.Lock()
			c.clearInterrupt()
			c.reader.mu.Unlock()
			continue
		}
		c.freeReader()
		return
	}
}
