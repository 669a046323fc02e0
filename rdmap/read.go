package rdmap

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/internal/reading"
	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"go.uber.org/zap"
)

// called is called when a call begins.
func (c *Conn) called() {
	if !c.role.Recent() {
		c.firstCall()
	}
}

// firstCall is called for the first call since a tick.
func (c *Conn) firstCall() {
	if !c.role.Active() {
		c.mu.Lock()
		inside := c.writer.Corked()
		c.mu.Unlock()
		if inside || !c.snd.State().Up() {
			return // a post inside an upcall is no call, and its reader is busy
		}
	}
	c.role.Begin()
}

// Serve gives the reading role to the calling goroutine until the connection ends, and returns the
// reason for the end: a *ConnError with io.EOF means that the peer closed the connection. If an
// upcall hands the role off, or the watchdog takes it, another goroutine continues to read. In any
// case Serve returns at the end of the connection. Errors before that: ErrNoHandshake, ErrServing.
func (c *Conn) Serve() error {
	if c.dev != nil {
		return c.serveDevice()
	}
	if err := c.begun(); err != nil {
		return err
	}
	if !c.role.BeginServing() {
		return verbs.ErrServing
	}
	c.role.GoOnServing()
	<-c.done
	return c.Err()
}

// Before implements reading.Owner.
func (s *inlet) Before(wait bool) error {
	c := (*Conn)(s)
	if c.ended() {
		return c.Err()
	}
	if c.partial.shrink.Load() {
		c.partial.parked() // before the read: its memory is that of the staging
	}
	if c.rcv.Backlog.Len() > 0 {
		return c.beforeWaitingRead(wait)
	}
	return nil
}

// After implements reading.Owner.
func (s *inlet) After(n int, err error) (int, error) {
	c := (*Conn)(s)
	if err != nil {
		if errors.Is(err, reading.ErrInterrupted) {
			return 0, err
		}
		return 0, c.readFailed(err)
	}
	if n == 0 {
		return 0, nil
	}
	c.reads.Add(1) // before the input is handled: the tickers compare it with what they saw
	c.rcv.In.Octets += uint64(n)
	return n, c.handle()
}

// Blocked implements reading.Owner: memoryBack will see to it.
func (s *inlet) Blocked() bool { return s.rcv.Backlog.Full() }

// Ended and Err implement reading.Owner.
func (s *inlet) Ended() bool { return (*Conn)(s).ended() }
func (s *inlet) Err() error  { return (*Conn)(s).Err() }

// Abort implements reading.Owner.
func (s *inlet) Abort(stack []byte) {
	(*Conn)(s).end(fmt.Errorf("%w: in a context\n%s", verbs.ErrPanic, stack), false)
}

// handle parses what is staged, runs the upcalls, and flushes what they have posted.
func (c *Conn) handle() error {
	c.mu.Lock()
	c.writer.Cork()
	c.executes = c.executesHere()
	c.mu.Unlock()
	err := c.parse()
	if errors.Is(err, reading.ErrLostRole) {
		return err // the writer stays corked until the successor uncorks it, who handles the rest
	}
	if err == nil {
		c.idled()
	}
	c.in.Set(&c.rcv.In) // for Stats and the tickers
	// What was posted leaves before a failure: it answers what came before the fault.
	c.uncork()
	if err != nil {
		c.fail(err)
	}
	// After the answers to what was handled, since a flush of the medium may take long.
	if !c.executeHere() {
		return reading.ErrLostRole
	}
	return err
}

// uncork flushes what has been posted while input was handled.
func (c *Conn) uncork() {
	c.mu.Lock()
	c.writer.Uncork()
	mine := c.write()
	if !mine {
		c.writer.Rested()
	}
	c.mu.Unlock()
	if mine {
		c.flush(never)
	}
}

// broken is deferred around what may panic on what a peer has sent: that costs its connection, not the others. If the
// panic has left a lock of the connection held, all who use the connection would wait for ever: then it ends the process.
func (c *Conn) broken(err *error) {
	v := recover()
	if v == nil {
		return
	}
	stack := debug.Stack()
	for _, mu := range []*sync.Mutex{&c.role.Mu, &c.mu} {
		for until := time.Now().Add(lockTime); !mu.TryLock(); time.Sleep(time.Millisecond) { // others may have it
			if time.Now().After(until) { // nobody else keeps it that long
				panic(v)
			}
		}
		mu.Unlock()
	}
	c.cfg.Logger.Error("panic: the connection ends", zap.Any("panic", v), zap.ByteString("stack", stack))
	*err = &verbs.ConnError{Op: "handle", Err: fmt.Errorf("%w: %v\n%s", verbs.ErrPanic, v, stack)}
}

// lockTime is far more than any lock of a connection is held.
const lockTime = 5 * time.Second

// parse handles every complete FPDU that is staged.
func (c *Conn) parse() (err error) {
	defer c.broken(&err)
	if c.rcv.Backlog.Len() > 0 { // older than what is staged
		if err := c.replay(); err != nil {
			return err
		}
	}
	for c.st != nil {
		st, ev, err := c.rcv.Next(c.st)
		c.st = st // what was read into its place and does not belong there may need a larger one
		if err != nil {
			return err
		}
		if ev.Kind == engine.EvNone || ev.Kind == engine.EvBlocked {
			break
		}
		if err := c.event(st, ev); err != nil {
			return err
		}
	}
	if c.st != nil && c.st.R == c.st.W {
		c.st.Release() // an idle connection holds none
		c.st = nil
	}
	c.partial.keep(c.st)
	return nil
}

// event acts on the event of one FPDU.
func (c *Conn) event(st *buf.Staging, ev *engine.Event) error {
	switch ev.Kind {
	case engine.EvNone, engine.EvBlocked:
	case engine.EvRequest:
		c.mu.Lock()
		c.startExecutor()
		c.mu.Unlock()
	case engine.EvReadDone:
		return c.readDone(st)
	case engine.EvTerminate:
		return ev.Term // what comes behind it is not handled (RFC 5040 Section 5.4)
	case engine.EvStalled:
		c.stalled()
	case engine.EvRepeat:
		return c.upcall(st)
	case engine.EvMessage:
		return c.deliver(st, ev)
	}
	return nil
}

// readFailed ends the connection because a read has failed. The end of the stream is io.EOF between
// two FPDUs, and io.ErrUnexpectedEOF inside one.
func (c *Conn) readFailed(err error) error {
	if errors.Is(err, io.EOF) && c.st != nil {
		if cut := c.rcv.Deframer.EOF(c.st.Pending()); cut != nil {
			err = errors.Join(io.ErrUnexpectedEOF, cut)
		}
	}
	e := &verbs.ConnError{Op: "read", Err: err}
	c.fail(e)
	return e
}

// inlet is a Conn as its role and its link see it. It belongs to the holder of the reading role.
type inlet Conn

// intake is what Room has prepared, for Got.
type intake struct {
	fresh  bool // the staging was borrowed for this read
	placed bool // the octets go to their places
	room   int  // octets of the staging
	much   bool // the last read filled its room, or brought more than a small staging holds
}

// Room implements reading.Source. A link that waits with the memory gets little, unless the peer sends much.
func (s *inlet) Room(held bool) (flat []byte, places [][]byte) {
	c, in := (*Conn)(s), &s.intake
	in.fresh, in.placed = c.st == nil, false
	switch {
	case c.st != nil && !held:
		if places = c.places(); places != nil {
			in.placed = true
			return nil, places
		}
		if len(c.st.B) < buf.Big {
			// A parked staging is filled before a big one replaces it: there may be no input.
			if c.st.W < len(c.st.B) {
				in.room = len(c.st.B) - c.st.W
				return c.st.B[c.st.W:], nil
			}
			c.st = c.st.Move(buf.Big)
		}
	case c.st != nil:
	case held && !in.much:
		c.st = buf.NewStaging(buf.Small)
	default:
		c.st = buf.NewStaging(buf.Big)
	}
	c.st, flat = c.st.Room(c.rcv.Deframer.Need(c.st.Pending()))
	if in.fresh && !held && (c.snd.Long.Load() > 0 || c.rcv.Writes > 0) {
		flat = flat[:engine.ShortRead] // a header tells where the rest belongs, so that it is not copied
		c.rcv.Writes = max(c.rcv.Writes-1, 0)
	}
	in.room = len(flat)
	return flat, nil
}

// places returns where the next octets belong if they are the payloads of a Read Response, otherwise nil.
func (c *Conn) places() [][]byte {
	if len(c.st.B) < buf.Big || c.st.R == c.st.W {
		return nil // parked, or nothing tells what comes next
	}
	return c.rcv.Places(c.st)
}

// Got implements source.
func (s *inlet) Got(n int) {
	c, in := (*Conn)(s), &s.intake
	switch {
	case n > 0 && in.placed:
		c.rcv.Landed(c.st, n)
	case n > 0:
		c.st.W += n
		in.much = n == in.room || n > buf.Small
	case in.placed:
		c.rcv.Missed()
	case in.fresh: // nothing has come: who waits holds no memory
		c.st.Release()
		c.st = nil
	}
}

// message makes the upcall for m. mem is its memory of the Pool, which only the inbox keeps.
func (c *Conn) message(m *verbs.Message, mem buf.Mem) {
	if c.cfg.Handler == nil {
		c.inbox.put(m, mem)
		return
	}
	c.cfg.Handler.HandleRecv(c, m)
}

// idled makes the upcall for the end of the input. What it posts is written with the rest.
func (c *Conn) idled() {
	if c.idle != nil {
		c.idle.HandleIdle(c)
	}
}

// closed makes the last upcall.
func (c *Conn) closed(err error) {
	if c.cfg.Handler == nil {
		c.inbox.close(c.cfg.Receives.Pool.mem)
		return
	}
	c.cfg.Handler.HandleClose(c, err)
}

// deliver hands the message of ev to the layer above. Its error is that of upcall.
func (c *Conn) deliver(st *buf.Staging, ev *engine.Event) error {
	if c.cfg.Handler == nil {
		// No upcall, which could lose the role: the messages have to stay in order.
		c.message(&ev.Msg, ev.Buf)
		ev.Clear()
		return nil
	}
	mem := ev.Buf
	m := &st.Msg // field by field: a copy of all at once would wait for what was just stored
	m.Op, m.Data, m.Invalidated, m.Solicited = ev.Msg.Op, ev.Msg.Data, ev.Msg.Invalidated, ev.Msg.Solicited
	ev.Clear()
	err := c.upcall(st)
	if mem != nil {
		c.cfg.Receives.Pool.mem.Put(mem) // also if the role is lost: the upcall has returned
	}
	return err
}

// upcall delivers st.Msg. Its error is reading.ErrLostRole, or that of a connection that has failed.
func (c *Conn) upcall(st *buf.Staging) error {
	s := c.beginUpcall()
	st.Msg.Order = s
	if err := c.above(func() { c.message(&st.Msg, nil) }); err != nil {
		c.fail(err)
	}
	return c.endUpcall(st, s)
}

// above makes an upcall. A panic is its error: the role may be lost, so parse must not see it.
func (c *Conn) above(call func()) (err error) {
	defer c.broken(&err)
	call()
	return nil
}

// beginUpcall makes upcalls odd. Whoever makes it even takes the role.
func (c *Conn) beginUpcall() (s uint64) {
	s = c.upcalls.Load() + 1
	c.upcalls.Store(s) // a store: only the holder makes it odd
	c.watchUpcall()
	return s
}

// endUpcall makes upcalls even again. If somebody else has done so, the upcall leaves the staging and
// no longer touches the receiving half.
func (c *Conn) endUpcall(st *buf.Staging, s uint64) error {
	if !c.upcalls.CompareAndSwap(s, s+1) {
		st.Leave() // the successor shares it, because the message lies in it
		c.takeovers.Add(-1)
		return reading.ErrLostRole
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
	due[len(due)-1] = engine.Completion{} // the memory is used again, and must keep nothing alive
	s := c.beginUpcall()
	if err := c.above(last.CompleteUpcall); err != nil {
		c.fail(err)
	}
	return c.endUpcall(st, s)
}

// wantsUpcall returns the last one of due if it has to be completed by an upcall, otherwise nil. Those
// before it must not wait for an upcall.
func (c *Conn) wantsUpcall(due []engine.Completion) verbs.UpcallCompleter {
	if len(due) == 0 || due[len(due)-1].Err != nil {
		return nil
	}
	last, ok := due[len(due)-1].Done.(verbs.UpcallCompleter)
	if !ok {
		return nil
	}
	if c.role.State() != reading.Server {
		return nil // another holder has a wait of its own to return to
	}
	return last
}

// HandOff passes the reading role of the running upcall to a new goroutine, so that the rest of the
// upcall may block. It may be called only in HandleRecv and CompleteUpcall, by the goroutine that
// runs them; m and m.Data stay lent until HandleRecv returns. It reports whether the upcall may now
// block: false means that Reading.MaxHandlers upcalls already do, or that a Device carries the connection.
//
// Later messages are then handled concurrently with this one. HandOff flushes what the upcall has
// posted.
func (c *Conn) HandOff() bool {
	if c.dev != nil {
		return false
	}
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
	// From here on this goroutine has the role, and the upcall has not: it stopped at the CompareAndSwap.
	if c.st != nil {
		c.st = c.st.Split()
	}
	go c.succeed()
	return true
}

// succeed continues where the upcall that lost the role was.
func (c *Conn) succeed() {
	c.uncork() // what the upcall has posted so far: it may not return soon
	if c.st == nil && c.rcv.Backlog.Len() == 0 {
		if !c.executeHere() {
			return
		}
	} else if err := c.handle(); errors.Is(err, reading.ErrLostRole) {
		return
	}
	if c.role.State() == reading.Server {
		c.role.GoOnServing()
		return
	}
	c.role.Rearm()
}

// memoryWake wakes a connection that waits for the Pool.
type memoryWake struct {
	back atomic.Bool // memory came back
}

// memoryBack is called when memory has come back to the Pool.
func (c *Conn) memoryBack() {
	c.memory.back.Store(true) // before the lock: a holder that has it sees one of the two
	r := &c.role
	r.Mu.Lock()
	if r.Take(reading.Watcher) {
		r.Mu.Unlock()
		if !errors.Is(c.handle(), reading.ErrLostRole) {
			c.role.Rearm()
		}
		return
	}
	r.Interrupt()
	r.Mu.Unlock()
}

// stalled begins to wait for memory. After half of Timeouts.Memory it reclaims the memory of Sends
// that began before the wait and have not ended.
func (c *Conn) stalled() {
	c.stalls.Add(1)
	wait := &c.rcv.Wait
	wait.Begin(time.Now())
	mem, turn := c.cfg.Receives.Pool.mem, wait.Turns()
	last := mem.Last() // Sends that begin later are not to blame for this wait
	time.AfterFunc(c.cfg.Timeouts.Memory/2, func() {
		if wait.Turns() == turn {
			mem.Reclaim(last)
		}
	})
	time.AfterFunc(c.cfg.Timeouts.Memory, c.memoryBack) // Replay then finds that the time is over
	c.rcv.WaitMemory()
}

// overdue ends the connection unless the Send with that number is complete by now.
func (c *Conn) overdue(began uint64) {
	if c.rcv.HoldsSend(began) {
		c.fail(&verbs.LocalError{Err: verbs.ErrUnfinishedSend})
	}
}

// replay handles what was put off. It ends early if there is still no memory.
func (c *Conn) replay() error {
	c.memory.back.Store(false)
	for c.rcv.Backlog.Len() > 0 {
		ev, err := c.rcv.Replay(time.Now())
		switch {
		case err != nil:
			return err
		case ev.Kind == engine.EvBlocked:
			return nil
		case ev.Kind == engine.EvStalled:
			c.stalled()
			return nil
		}
		held, st := c.st, buf.NewStaging(buf.Small) // of the upcall; the message lies in the backlog
		err = c.event(st, ev)
		if errors.Is(err, reading.ErrLostRole) { // whoever took over has left held, not st
			st.Leave()
			if held != nil {
				held.Leave()
			}
			return err
		}
		st.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// beforeWaitingRead is called before a read while something is put off. It retries, and if no more can
// be put off, it waits for memory instead of reading.
func (c *Conn) beforeWaitingRead(wait bool) error {
	if c.memory.back.Load() || c.rcv.Backlog.Full() {
		if err := c.handle(); err != nil {
			return err
		}
	}
	if !c.rcv.Backlog.Full() {
		return nil
	}
	if wait {
		c.waitMemory()
	}
	return reading.ErrInterrupted
}

// waitMemory waits until memory comes back to the Pool, or somebody interrupts.
func (c *Conn) waitMemory() {
	c.role.Mu.Lock()
	if c.role.Hint == nil {
		c.role.Hint = make(chan struct{}, 1)
	}
	ch := c.role.Hint
	if c.link.Interrupted() || c.memory.back.Load() {
		select { // it came before there was a channel
		case ch <- struct{}{}:
		default:
		}
	}
	c.role.Mu.Unlock()
	t := time.NewTimer(c.cfg.Timeouts.Memory)
	defer t.Stop()
	select {
	case <-ch:
	case <-t.C:
	}
}
