package rdmap

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/drive"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
)

// deliver hands the message of ev to the Handler. Its error is that of upcall.
func (c *Conn) deliver(st *buf.Staging, ev *engine.Event) error {
	buf := ev.Buf
	m := &st.Msg // field by field: a copy of all at once would wait for what was just stored
	m.Op, m.Data, m.Invalidated, m.Solicited = ev.Msg.Op, ev.Msg.Data, ev.Msg.Invalidated, ev.Msg.Solicited
	ev.Clear()
	err := c.upcall(st)
	if buf != nil {
		c.cfg.Receives.Pool.mem.Put(buf)
	}
	return err
}

// upcall runs HandleRecv for st.msg. Its error is errLostRole, or that of a connection that has
// failed.
func (c *Conn) upcall(st *buf.Staging) error {
	s := c.beginUpcall()
	st.Msg.Order = s
	c.cfg.Handler.HandleRecv(c, &st.Msg)
	return c.endUpcall(st, s)
}

// beginUpcall makes upcalls odd. Whoever makes it even takes the role.
func (c *Conn) beginUpcall() (s uint64) {
	s = c.upcalls.Load() + 1
	c.upcalls.Store(s)
	c.watchUpcall()
	return s
}

// endUpcall makes upcalls even again. If somebody else has done so, the upcall leaves the staging and
// no longer touches the receiving half.
func (c *Conn) endUpcall(st *buf.Staging, s uint64) error {
	if !c.upcalls.CompareAndSwap(s, s+1) {
		st.Leave()
		c.takeovers.Add(-1)
		return errLostRole
	}
	if c.ended() {
		return c.Err()
	}
	return nil
}

// readDone completes what the response to the oldest request has made due, the last one by an upcall
// if it wants that.
func (c *Conn) readDone(st *buf.Staging) error {
	due := c.rcv.Due
	c.rcv.Due = due[:0]
	last := c.wantsUpcall(due)
	if last == nil {
		engine.Fire(due)
		return nil
	}
	engine.Fire(due[:len(due)-1])
	due[len(due)-1] = engine.Completion{}
	s := c.beginUpcall()
	last.CompleteUpcall(c)
	return c.endUpcall(st, s)
}

// wantsUpcall returns the last one of due if it has to be completed by an upcall, otherwise nil. Those
// before it must not wait for an upcall.
func (c *Conn) wantsUpcall(due []engine.Completion) UpcallCompleter {
	if len(due) == 0 || due[len(due)-1].Err != nil {
		return nil
	}
	last, ok := due[len(due)-1].Done.(UpcallCompleter)
	if !ok {
		return nil
	}
	if c.reader.State() != drive.Server {
		return nil
	}
	return last
}

// HandOff passes the reading role of the running upcall to a new goroutine, so that the rest of the
// upcall may block. It may be called only in HandleRecv and CompleteUpcall, by the goroutine that
// runs them; m and m.Data stay lent until HandleRecv returns. It reports whether the upcall may now
// block: false means that Reading.MaxHandlers upcalls already do.
//
// Later messages are then handled concurrently with this one. HandOff flushes what the upcall has
// posted.
func (c *Conn) HandOff() bool {
	s := c.upcalls.Load()
	if s&1 == 0 {
		return true // the watchdog was faster
	}
	return c.takeOver(s)
}

// takeOver takes the role from the upcall with number s and gives it to a new goroutine. It reports
// whether it did. The upcall keeps its staging, where its message lies.
func (c *Conn) takeOver(s uint64) bool {
	if c.takeovers.Add(1) > int64(c.cfg.Reading.MaxHandlers) || !c.upcalls.CompareAndSwap(s, s+1) {
		c.takeovers.Add(-1)
		return false
	}
	c.taken.Add(1)
	if c.st != nil {
		c.st = c.st.Split()
	}
	go c.succeed()
	return true
}

// succeed continues where the upcall that lost the role was.
func (c *Conn) succeed() {
	c.uncork()
	if c.st == nil && c.rcv.Backlog.Len() == 0 {
		if !c.executeHere() {
			return
		}
	} else if err := c.handle(); errors.Is(err, errLostRole) {
		return
	}
	if c.reader.State() == drive.Server {
		c.serve()
		return
	}
	c.rearm()
}

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

// tickEvery is the period at which active connections are looked at. Unsolicited input right after a call
// is noticed within two ticks. A shorter period would wake a second thread so often that callers would
// notice.
const tickEvery = 40 * time.Millisecond

// The tickers of the process: of active connections, and the watchdog.
var (
	processTicker = drive.NewTicker(tickEvery, 0, true)
	processDog    = drive.NewTicker(watchdogRest, watchdogTick, true)
)

// watchdog is what the watchdog knows about a connection. The watchdog takes the role from upcalls that
// run too long. HandOff is the rule for those, and the watchdog is the safety net. It looks only at
// connections that have had upcalls lately, and does not tick while there are none.
//
// Choice: a ticker. A thread of its own that sleeps in a system call would keep a P, which Go's
// sysmon takes away at every tick; for that, sysmon would wake up every 70 microseconds.
type watchdog struct {
	c     *Conn
	t     *drive.Ticker
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

// Tick implements drive.Ticked.
func (w *watchdog) Tick() bool {
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
