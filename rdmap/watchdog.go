package rdmap

import (
	"sync"
	"sync/atomic"
	"time"
)

// watchdogTick is how often the watchdog looks.
const watchdogTick = time.Millisecond

// watchdogIdle is after how many ticks without an upcall a connection is no longer
// looked at.
const watchdogIdle = 64

// watchdog relieves upcalls of connections in Serve that overstay. Saying so with
// HandOff is the rule, this the safety net. It looks at connections that have had
// upcalls lately only, and does not exist while there are none: a short periodic
// timer costs every connection of the process latency.
type watchdog struct {
	mu    sync.Mutex
	conns []*Conn
	runs  bool
}

var dog watchdog

// watched is what the watchdog knows of a connection.
type watched struct {
	on    atomic.Bool // on the list, or about to be
	last  uint64      // upcalls as seen at the last tick; the watchdog's
	stays int         // ticks since it changed; the watchdog's
}

// watchUpcall has the watchdog look at an upcall that begins.
func (c *Conn) watchUpcall() {
	if c.cfg.HandlerLimit > 0 && !c.dog.on.Load() && c.dog.on.CompareAndSwap(false, true) {
		dog.add(c)
	}
}

func (d *watchdog) add(c *Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns = append(d.conns, c)
	if !d.runs {
		d.runs = true
		go d.run()
	}
}

// run ticks while there are connections.
func (d *watchdog) run() {
	pause, stop := watchdogClock()
	defer stop()
	for {
		pause()
		d.mu.Lock()
		list := d.conns
		d.conns = nil
		d.mu.Unlock()
		keep := list[:0]
		for _, c := range list {
			if c.patrol() {
				keep = append(keep, c)
			}
		}
		clear(list[len(keep):])
		d.mu.Lock()
		d.conns = append(keep, d.conns...)
		if len(d.conns) == 0 {
			d.conns, d.runs = nil, false
			d.mu.Unlock()
			return
		}
		d.mu.Unlock()
	}
}

// patrol looks at one connection, and reports whether to look again.
func (c *Conn) patrol() bool {
	w := &c.dog
	s := c.upcalls.Load()
	if s != w.last {
		w.last, w.stays = s, 0
		return true
	}
	w.stays++
	inside := s&1 == 1
	if inside && time.Duration(w.stays)*watchdogTick >= c.cfg.HandlerLimit {
		c.takeOver(s)
	}
	if !inside && w.stays > watchdogIdle || c.failed.Load() {
		w.on.Store(false)
		// An upcall that began before the store did not call add: look once more.
		return c.upcalls.Load() != s && w.on.CompareAndSwap(false, true)
	}
	return true
}
