package rdmap

import (
	"sync/atomic"
	"time"
)

const (
	// watchdogRest is how often the watchdog looks as long as it finds nobody in an upcall.
	// Each tick of a timer of Go's wakes threads, and they move who exchange short messages
	// to other processors: looking every millisecond made a NULL call a third longer.
	watchdogRest = 10 * time.Millisecond
	// watchdogTick is how often it looks at who is in one, and for watchdogAlert ticks
	// after an upcall that had to be relieved: where there is one there are more.
	watchdogTick  = time.Millisecond
	watchdogAlert = 200
	// watchdogIdle is after how many ticks without an upcall a connection is no longer
	// looked at.
	watchdogIdle = 8
)

// watched is what the watchdog knows of a connection. The watchdog relieves upcalls of
// connections in Serve that overstay. Saying so with HandOff is the rule, this the safety
// net. It looks at connections that have had upcalls lately only, and does not exist while
// there are none.
//
// Choice: a timer of Go's. A thread of its own that sleeps in a system call keeps a P
// there, which Go's sysmon takes away at every tick; it then wakes up every 70
// microseconds in its turn.
type watched struct {
	c     *Conn
	t     *ticker
	on    atomic.Bool // on the list, or about to be
	last  uint64      // upcalls as seen at the last tick; the watchdog's
	stays int         // ticks since it was seen to change; the watchdog's
}

// watchUpcall has the watchdog look at an upcall that begins.
func (c *Conn) watchUpcall() {
	if c.cfg.HandlerLimit > 0 && !c.dog.on.Load() && c.dog.on.CompareAndSwap(false, true) {
		c.dog.t.add(&c.dog)
	}
}

// ticked implements tickee.
func (w *watched) ticked() bool {
	c := w.c
	s := c.upcalls.Load()
	inside := s&1 == 1
	if inside {
		w.t.hurry = max(w.t.hurry, 1)
	}
	if s != w.last {
		w.last, w.stays = s, 0
		return true
	}
	w.stays++
	if inside && time.Duration(w.stays)*watchdogTick >= c.cfg.HandlerLimit && c.takeOver(s) {
		w.t.hurry = watchdogAlert
	}
	if !inside && w.stays > watchdogIdle || c.failed.Load() {
		w.on.Store(false)
		// An upcall that began before the store did not call add: look once more.
		return c.upcalls.Load() != s && w.on.CompareAndSwap(false, true)
	}
	return true
}
