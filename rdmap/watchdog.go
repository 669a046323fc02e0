package rdmap

import (
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/drive"
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

// tickEvery is the period at which hot connections are looked at. Unsolicited input right after a call
// is noticed within two ticks. A shorter period would wake a second thread so often that callers would
// notice.
const tickEvery = 40 * time.Millisecond

// The tickers of the process: of hot connections, and the watchdog.
var (
	processTicker = drive.NewTicker(tickEvery, 0, true)
	processDog    = drive.NewTicker(watchdogRest, watchdogTick, true)
)

// watched is what the watchdog knows about a connection. The watchdog takes the role from upcalls that
// run too long. HandOff is the rule for those, and the watchdog is the safety net. It looks only at
// connections that have had upcalls lately, and does not tick while there are none.
//
// Choice: a ticker. A thread of its own that sleeps in a system call would keep a P, which Go's
// sysmon takes away at every tick; for that, sysmon would wake up every 70 microseconds.
type watched struct {
	c     *Conn
	t     *drive.Ticker
	on    atomic.Bool // on the list of t, or about to be
	last  uint64      // Conn.upcalls at the last tick; owned by the watchdog
	stays int         // ticks since it last changed; owned by the watchdog
}

// watchUpcall makes the watchdog look at an upcall that begins.
func (c *Conn) watchUpcall() {
	if c.cfg.HandlerLimit > 0 && !c.dog.on.Load() && c.dog.on.CompareAndSwap(false, true) {
		c.dog.t.Add(&c.dog)
	}
}

// Tick implements drive.Ticked.
func (w *watched) Tick() bool {
	c := w.c
	s := c.upcalls.Load()
	inside := s&1 == 1
	if inside {
		w.t.Hurry(1)
	}
	if s != w.last {
		w.last, w.stays = s, 0
		return true
	}
	w.stays++
	if inside && time.Duration(w.stays)*watchdogTick >= c.cfg.HandlerLimit && c.takeOver(s) {
		w.t.Hurry(watchdogAlert)
	}
	if !inside && w.stays > watchdogIdle || c.ended() {
		w.on.Store(false)
		// An upcall that began before the store has not called add: check once more.
		return c.upcalls.Load() != s && w.on.CompareAndSwap(false, true)
	}
	return true
}
