package rdmap

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/internal/reading"
	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

const (
	// watchdogRest is the watchdog's period while it finds no running upcall. Each tick wakes
	// threads, which drive goroutines that exchange short messages to other processors: with a
	// period of a millisecond a NULL call took a third longer.
	watchdogRest = 10 * time.Millisecond
	// watchdogTick is its period while there is a running upcall, and for watchdogAlert ticks after
	// an upcall that lost the role: where there is one, there are likely to be more.
	watchdogTick  = time.Millisecond
	watchdogAlert = 200
	// watchdogIdle is the number of ticks without an upcall after which the watchdog drops a
	// connection.
	watchdogIdle = 8
)

// watchdog is what the watchdog knows about a connection. The watchdog takes the role from upcalls that
// run too long. HandOff is the rule for those, and the watchdog is the safety net. It looks only at
// connections that have had upcalls lately, and does not tick while there are none.
//
// Choice: a ticker. A thread of its own that sleeps in a system call would keep a P, which Go's
// sysmon takes away at every tick; for that, sysmon would wake up every 70 microseconds.
type watchdog struct {
	c     *Conn
	t     *reading.Ticker
	on    atomic.Bool // on the list of t, or about to be
	last  uint64      // Conn.upcalls at the last tick; owned by the watchdog
	stays int         // ticks since it last changed; owned by the watchdog
}

// watchUpcall makes the watchdog look at an upcall that begins.
func (c *Conn) watchUpcall() {
	if c.cfg.Reading.HandlerLimit > 0 && !c.watchdog.on.Load() && c.watchdog.on.CompareAndSwap(false, true) {
		c.watchdog.t.Add(&c.watchdog)
	}
}

// Tick implements reading.Ticked.
func (w *watchdog) Tick() bool {
	c := w.c
	s := c.upcalls.Load()
	inside := s&1 == 1
	if inside {
		w.t.Hurry(1) // it may be too long already
	}
	if s != w.last {
		w.last, w.stays = s, 0
		return true
	}
	w.stays++
	if inside && time.Duration(w.stays)*watchdogTick >= c.cfg.Reading.HandlerLimit && c.takeOver(s) {
		w.t.Hurry(watchdogAlert)
	}
	if !inside && w.stays > watchdogIdle || c.ended() {
		w.on.Store(false)
		// An upcall that began before the store has not called add: check once more.
		return c.upcalls.Load() != s && w.on.CompareAndSwap(false, true)
	}
	return true
}

// partial looks after the staging that holds an unfinished FPDU of a connection. When hardly
// anything has arrived for a tick or two, the staging is exchanged for a smaller one, so that a peer that stops
// inside an FPDU makes us hold little more than it has sent, and not for ever. While octets arrive
// nothing is moved, because that would copy them once more.
type partial struct {
	c      *Conn
	fpdu   engine.PartialFPDU // owned by the ticker
	on     atomic.Bool        // registered with the ticker
	held   atomic.Int64       // octets of staging held while the rest of the FPDU is awaited
	shrink atomic.Bool        // the holder of the reading role is asked to park
	rest   atomic.Pointer[time.Timer]

	told   atomic.Bool // Config.PartialFPDU was called with octets
	tellMu sync.Mutex
	ended  bool // under tellMu
}

// tell calls Config.PartialFPDU with what is held for an FPDU that is silent, or, if something was told before, with 0.
func (p *partial) tell(silent bool) {
	f := p.c.cfg.PartialFPDU
	if f == nil {
		return
	}
	p.tellMu.Lock()
	defer p.tellMu.Unlock()
	n := 0
	if silent {
		n = int(p.held.Load())
	}
	if silent && (p.ended || n == 0) || !silent && !p.told.Load() {
		return // it is complete meanwhile
	}
	p.told.Store(n > 0)
	f(n)
}

// keep is called by the holder of the role with the staging that it still holds after input.
func (p *partial) keep(st *buf.Staging) {
	if st == nil {
		if p.held.Load() != 0 {
			p.held.Store(0)
		}
		if p.told.Load() {
			p.tell(false)
		}
		return
	}
	p.held.Store(int64(len(st.B)))
	if !p.on.Load() { // only the holder of the role sets it
		p.on.Store(true)
		p.c.tick.Add(p)
	}
}

// park exchanges the staging for a small one. The caller holds the role.
func (p *partial) park() {
	p.shrink.Store(false)
	c := p.c
	if c.st == nil {
		return
	}
	have := len(c.st.Pending())
	c.st = c.st.Park(c.link.ParkRoom(c.rcv.Deframer.Need(c.st.Pending()), have))
	p.held.Store(int64(len(c.st.B)))
}

// parked is park for the reader, which was asked to.
func (p *partial) parked() {
	p.park()
	if p.told.Load() {
		p.tell(true)
	}
}

// expect gives the peer Timeouts.FPDU to complete the FPDU that it has begun. One that waits for memory of
// ours is given more. That is bounded by Timeouts.Memory, which should be the shorter of the two.
func (p *partial) expect(fpdus, waits uint64) {
	c := p.c
	if c.cfg.Timeouts.FPDU < 0 || c.ended() {
		return
	}
	t := time.AfterFunc(c.cfg.Timeouts.FPDU, func() {
		if p.held.Load() > 0 && c.in.FPDUs.Load() == fpdus && c.rcv.Wait.Turns() == waits {
			c.fail(&verbs.ConnError{Op: "read", Err: verbs.ErrPartialFPDU})
		}
	})
	if old := p.rest.Swap(t); old != nil {
		old.Stop() // of the FPDU before; if it fires all the same, its counts have passed
	}
}

// stop ends the wait at the end of the connection.
func (p *partial) stop() {
	if t := p.rest.Swap(nil); t != nil {
		t.Stop()
	}
	p.tell(false)
	p.tellMu.Lock()
	p.ended = true // a tick that is running must not tell of octets after that
	p.tellMu.Unlock()
}

// Tick implements reading.Ticked.
func (p *partial) Tick() bool {
	c := p.c
	reads := c.reads.Load()
	held, fpdus, waits := p.held.Load(), c.in.FPDUs.Load(), c.rcv.Wait.Turns()
	state, another := p.fpdu.Tick(held > 0, c.in.Octets.Load(), fpdus, waits)
	if another {
		p.tell(false) // of the one before
		p.expect(fpdus, waits)
	}
	if state == engine.PartialActive {
		return true
	}
	p.on.Store(false)
	if c.reads.Load() != reads && p.on.CompareAndSwap(false, true) {
		return true // a reader that came before the store has not called Add
	}
	if held > buf.Small {
		r := &c.role
		r.Mu.Lock()
		switch s := r.State(); {
		case s == reading.Free || s == reading.Watched:
			p.park() // nobody can take the role in the meantime
		case s < reading.Drainer:
			p.shrink.Store(true)
			r.Interrupt()
		}
		r.Mu.Unlock()
	}
	if state == engine.PartialSilent {
		p.tell(true)
	}
	return false
}

// keepalive sends the keepalives of an initiator.
type keepalive struct {
	c     *Conn
	timer engine.Keepalive // owned by the ticker
}

// Tick implements reading.Ticked.
func (k *keepalive) Tick() bool {
	c := k.c
	due, more := k.timer.Tick(c.reads.Load() > 0)
	if !due {
		return more // most ticks: no lock
	}
	c.mu.Lock()
	alive := c.snd.State() == engine.StateOpen
	if alive {
		c.snd.Post(&verbs.WR{Op: verbs.OpWrite})
	}
	c.mu.Unlock()
	c.flushIfReady(never) // the ticker must not wait
	return alive && more
}

// processDog is the watchdog of the process.
var processDog = reading.NewTicker(watchdogRest, watchdogTick, true)
