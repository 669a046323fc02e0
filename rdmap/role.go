package rdmap

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/stag-rdma/stag/rdmap/internal/drive"
)

// holder says who holds the reading role.
type holder uint8

const (
	// holderNone: nobody reads. The first goroutine that waits takes the role; while
	// the connection is cold it is watched.
	holderNone holder = iota
	// holderLeader: a goroutine in Wait.
	holderLeader
	// holderServer: the goroutine in Serve, or the one that took over from it.
	holderServer
	// holderWatcher: the watcher of an idle connection, or an upcall's successor.
	holderWatcher
	// holderEnd: the connection is over; the role is never free again.
	holderEnd
)

// role is the reading role of a Conn and those who wait for it. Whoever leaves, for whatever reason,
// and finds the role free and the queue not empty, wakes the first follower. A wake is a hint: whoever
// is woken checks again.
type role struct {
	c  *Conn
	mu sync.Mutex

	holder  holder
	waiters // followers, in order of arrival
	woken   chain
	serving bool // Serve was called
	again   bool // a watcher saw input while the role was taken
	over    bool // the connection is over and every upcall has begun
	freed   chan struct{}

	// hot: there were calls lately, and callers read for themselves; nobody watches.
	// Written with mu held.
	hot    atomic.Bool
	parked bool // a watcher of a link that cannot watch reads
	// warm: a call that begins need not do anything, since another has begun since the
	// last tick, or the connection is in Serve. Written with mu held, except by ticks.
	warm atomic.Bool
}

// leave is called by whoever leaves, with mu held, and unlocks it.
func (r *role) leave() {
	if r.holder == holderNone && r.first != nil {
		r.first.wake()
	}
	r.mu.Unlock()
}

// free gives the role back.
func (r *role) free() {
	r.mu.Lock()
	r.freeLocked()
	r.leave()
}

func (r *role) freeLocked() {
	r.holder, r.parked = holderNone, false
	r.c.clearInterrupt()
	if r.freed != nil {
		close(r.freed)
		r.freed = nil
	}
	if r.again {
		r.again = false
		if !r.over {
			go r.c.readable()
		}
	}
}

// take takes the role for h if it is free, with mu held.
func (r *role) take(h holder) bool {
	if r.holder != holderNone || r.over {
		return false
	}
	r.holder = h
	return true
}

// wakeAll makes every follower check again, with mu held.
func (r *role) wakeAll() {
	for w := r.first; w != nil; w = w.next {
		w.wake()
	}
}

// warm is called when a call begins. A cold connection becomes hot: from now on callers read for
// themselves, until a tick finds that no call has begun since the last tick.
func (c *Conn) warm() {
	if !c.role.warm.Load() {
		c.warmUp()
	}
}

// warmUp is warm for the first call since a tick.
func (c *Conn) warmUp() {
	r := &c.role
	if !r.hot.Load() {
		c.mu.Lock()
		inside := c.burst
		c.mu.Unlock()
		if inside || !c.snd.State().Up() {
			return // a post inside an upcall is no call, and its reader is busy
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c.warmLocked()
	r.warm.Store(true)
}

// warmLocked is warm for a goroutine that waits, with role.mu held: a leader of a connection that is
// not hot would leave it without a watcher.
func (c *Conn) warmLocked() {
	r := &c.role
	if r.hot.Load() || r.serving || r.over {
		return
	}
	r.hot.Store(true)
	c.unwatch()
	c.tick.Add((*hotness)(c))
}

// hotness is a Conn as its ticker sees it while it is hot.
type hotness Conn

// Tick reports whether the connection is still hot.
func (h *hotness) Tick() bool {
	c := (*Conn)(h)
	r := &c.role
	if r.warm.Swap(false) {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.over || r.serving:
		r.hot.Store(false)
		r.warm.Store(true)
		return false
	case r.holder != holderNone || r.first != nil:
		return true
	}
	r.hot.Store(false)
	r.warm.Store(false)
	c.watch()
	return false
}

// readable is called, in a goroutine of its own, when the watched connection has input. It reads
// everything that has arrived, and makes the connection watched again.
func (c *Conn) readable() {
	r := &c.role
	r.mu.Lock()
	if !r.take(holderWatcher) {
		r.again = true
		r.mu.Unlock()
		return
	}
	r.mu.Unlock()
	for {
		n, err := c.readBurst(false)
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
	r := &c.role
	blocked := c.rcv.Backlog.Full() // unstall will see to it
	r.mu.Lock()
	r.freeLocked()
	if !blocked && !r.hot.Load() && !r.serving && !r.over && !c.ended() && r.first == nil {
		c.watch()
	}
	r.leave()
}

// watch makes sure that input is noticed while nobody reads, with role.mu held.
func (c *Conn) watch() {
	if !c.link.Watch(c.ready) {
		c.role.holder, c.role.parked = holderWatcher, true
		go c.parked()
	}
}

// unwatch ends that, with role.mu held.
func (c *Conn) unwatch() {
	c.link.Unwatch()
	if c.role.parked {
		c.role.interrupt()
	}
}

// parked is the watcher of a link that has no other. It reads until somebody wants the role.
func (c *Conn) parked() {
	r := &c.role
	for {
		_, err := c.readBurst(true)
		if err == nil {
			continue
		}
		if errors.Is(err, errLostRole) {
			return
		}
		r.mu.Lock()
		if !errors.Is(err, drive.ErrInterrupted) || c.ended() || r.hot.Load() || r.serving || r.first != nil {
			break
		}
		c.clearInterrupt()
		r.mu.Unlock()
	}
	r.freeLocked()
	r.leave()
}

// interrupt makes a reader that waits return if it holds the role as h.
func (c *Conn) interrupt(h holder) {
	c.role.mu.Lock()
	defer c.role.mu.Unlock()
	if c.role.holder == h {
		c.role.interrupt()
	}
}

// interrupt is Conn.interrupt for any holder, with mu held. At the end of the connection finish owns
// the read deadline.
func (r *role) interrupt() {
	if r.holder == holderEnd {
		return
	}
	r.c.link.Interrupt()
	if h := r.c.stall.hint; h != nil {
		hint(h)
	}
}

// clearInterrupt makes reads wait again, with role.mu held. After a failure they must not wait.
func (c *Conn) clearInterrupt() {
	if !c.ended() {
		c.link.Resume()
	}
}
