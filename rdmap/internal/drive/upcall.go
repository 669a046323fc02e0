package drive

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// deliver hands the message of ev to the layer above. Its error is that of upcall.
func (d *Driver) deliver(st *buf.Staging, ev *engine.Event) error {
	if d.cfg.Receiver.Keep {
		// No upcall, which could lose the role: the messages have to stay in order.
		d.up.Message(&ev.Msg, ev.Buf)
		ev.Clear()
		return nil
	}
	mem := ev.Buf
	m := &st.Msg // field by field: a copy of all at once would wait for what was just stored
	m.Op, m.Data, m.Invalidated, m.Solicited = ev.Msg.Op, ev.Msg.Data, ev.Msg.Invalidated, ev.Msg.Solicited
	ev.Clear()
	err := d.upcall(st)
	if mem != nil {
		d.cfg.Receiver.Pool.Put(mem)
	}
	return err
}

// upcall delivers st.Msg. Its error is errLostRole, or that of a connection that has failed.
func (d *Driver) upcall(st *buf.Staging) error {
	s := d.beginUpcall()
	st.Msg.Order = s
	if err := d.above(func() { d.up.Message(&st.Msg, nil) }); err != nil {
		d.fail(err)
	}
	return d.endUpcall(st, s)
}

// above makes an upcall. A panic is its error: the role may be lost, so parse must not see it.
func (d *Driver) above(call func()) (err error) {
	defer d.broken(&err)
	call()
	return nil
}

// beginUpcall makes upcalls odd. Whoever makes it even takes the role.
func (d *Driver) beginUpcall() (s uint64) {
	s = d.upcalls.Load() + 1
	d.upcalls.Store(s)
	d.watchUpcall()
	return s
}

// endUpcall makes upcalls even again. If somebody else has done so, the upcall leaves the staging and
// no longer touches the receiving half.
func (d *Driver) endUpcall(st *buf.Staging, s uint64) error {
	if !d.upcalls.CompareAndSwap(s, s+1) {
		st.Leave()
		d.takeovers.Add(-1)
		return errLostRole
	}
	if d.ended() {
		return d.Err()
	}
	return nil
}

// readDone completes what the response to the oldest request has made due, the last one by an upcall
// if it wants that.
func (d *Driver) readDone(st *buf.Staging) error {
	due := d.rcv.Due
	d.rcv.Due = due[:0]
	last := d.wantsUpcall(due)
	if last == nil {
		engine.Fire(due)
		return nil
	}
	engine.Fire(due[:len(due)-1])
	due[len(due)-1] = engine.Completion{}
	s := d.beginUpcall()
	if err := d.above(last.CompleteUpcall); err != nil {
		d.fail(err)
	}
	return d.endUpcall(st, s)
}

// wantsUpcall returns the last one of due if it has to be completed by an upcall, otherwise nil. Those
// before it must not wait for an upcall.
func (d *Driver) wantsUpcall(due []engine.Completion) verbs.UpcallCompleter {
	if len(due) == 0 || due[len(due)-1].Err != nil {
		return nil
	}
	last, ok := due[len(due)-1].Done.(verbs.UpcallCompleter)
	if !ok {
		return nil
	}
	if d.role.State() != Server {
		return nil
	}
	return last
}

// HandOff passes the reading role of the running upcall to a new goroutine. It reports whether the
// upcall may now block.
func (d *Driver) HandOff() bool {
	s := d.upcalls.Load()
	if s&1 == 0 {
		return true // the watchdog was faster
	}
	return d.takeOver(s)
}

// takeOver takes the role from the upcall with number s and gives it to a new goroutine. It reports
// whether it did. The upcall keeps its staging, where its message lies.
func (d *Driver) takeOver(s uint64) bool {
	if d.takeovers.Add(1) > int64(d.cfg.MaxHandlers) || !d.upcalls.CompareAndSwap(s, s+1) {
		d.takeovers.Add(-1)
		return false
	}
	d.taken.Add(1)
	if d.st != nil {
		d.st = d.st.Split()
	}
	go d.succeed()
	return true
}

// succeed continues where the upcall that lost the role was.
func (d *Driver) succeed() {
	d.uncork()
	if d.st == nil && d.rcv.Backlog.Len() == 0 {
		if !d.executeHere() {
			return
		}
	} else if err := d.handle(); errors.Is(err, errLostRole) {
		return
	}
	if d.role.State() == Server {
		d.serve()
		return
	}
	d.rearm()
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

// watchdog is what the watchdog knows about a connection. The watchdog takes the role from upcalls that
// run too long. HandOff is the rule for those, and the watchdog is the safety net. It looks only at
// connections that have had upcalls lately, and does not tick while there are none.
//
// Choice: a ticker. A thread of its own that sleeps in a system call would keep a P, which Go's
// sysmon takes away at every tick; for that, sysmon would wake up every 70 microseconds.
type watchdog struct {
	d     *Driver
	t     *Ticker
	on    atomic.Bool // on the list of t, or about to be
	last  uint64      // Driver.upcalls at the last tick; owned by the watchdog
	stays int         // ticks since it last changed; owned by the watchdog
}

// watchUpcall makes the watchdog look at an upcall that begins.
func (d *Driver) watchUpcall() {
	if d.cfg.HandlerLimit > 0 && !d.watchdog.on.Load() && d.watchdog.on.CompareAndSwap(false, true) {
		d.watchdog.t.Add(&d.watchdog)
	}
}

// Tick implements Ticked.
func (w *watchdog) Tick() bool {
	d := w.d
	s := d.upcalls.Load()
	inside := s&1 == 1
	if inside {
		w.t.Hurry(1)
	}
	if s != w.last {
		w.last, w.stays = s, 0
		return true
	}
	w.stays++
	if inside && time.Duration(w.stays)*watchdogTick >= d.cfg.HandlerLimit && d.takeOver(s) {
		w.t.Hurry(watchdogAlert)
	}
	if !inside && w.stays > watchdogIdle || d.ended() {
		w.on.Store(false)
		// An upcall that began before the store has not called add: check once more.
		return d.upcalls.Load() != s && w.on.CompareAndSwap(false, true)
	}
	return true
}
