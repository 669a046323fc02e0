package rdmap

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/internal/list"
	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"go.uber.org/zap"
)

// role is the reading role of a connection and those who wait for it. Whoever leaves, for whatever reason, and finds the role
// free and the queue not empty, wakes the first waiter. A wake is a hint: whoever is woken checks again.
type role struct {
	mu sync.Mutex
	reader
	waiters list.List[Waiter] // in order of arrival
	woken   chain
	freed   chan struct{} // made by whoever waits for the role to be released; closed then
}

// leave is called by whoever leaves, with mu held, and unlocks it.
func (r *role) leave() {
	if r.State() == readFree && r.waiters.Len() > 0 {
		r.waiters.First().wake()
	}
	r.mu.Unlock()
}

// wakeAll makes everybody who waits check again, with mu held.
func (r *role) wakeAll() {
	for w := range r.waiters.All() {
		w.wake()
	}
}

// enqueue makes w wait, behind the others unless it waits already. The caller holds mu.
func (r *role) enqueue(w *Waiter) {
	if !w.place.In(&r.waiters) {
		r.waiters.Push(&w.place, w)
	}
}

// act carries out what a change of the reader asks for, with role.mu held.
func (c *Conn) act(a readerAction) {
	if a&doUnwatch != 0 {
		c.link.Unwatch()
	}
	if a&doInterrupt != 0 {
		c.interrupt()
	}
	if a&doAddTick != 0 {
		c.tick.Add((*activity)(c))
	}
	if a&doAgain != 0 {
		go c.readable() // with role.mu held nobody may read here
	}
	if a&doWatch != 0 && !c.link.Watch(c.ready) {
		// There is no way to be told of input but to wait for it.
		c.role.Park()
		go c.parked()
	}
}

// release gives the role back, with role.mu held. rest: if nobody waits, input is to be noticed.
func (c *Conn) release(rest bool) {
	r := &c.role
	c.clearInterrupt() // it was meant for the holder that leaves
	if r.freed != nil {
		close(r.freed)
		r.freed = nil
	}
	c.act(r.Release(rest && r.waiters.Len() == 0 && !c.ended()))
}

// freeReader is release for a goroutine that has waited.
func (c *Conn) freeReader() {
	c.role.mu.Lock()
	c.release(false)
	c.role.leave()
}

// called is called when a call begins. On an active connection callers read for themselves, until a tick finds that no
// call has begun since the last tick.
func (c *Conn) called() {
	if !c.role.Recent() { // nearly always it is: one load is all that most calls pay
		c.firstCall()
	}
}

// firstCall is called for the first call since a tick.
func (c *Conn) firstCall() {
	r := &c.role
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

// activity is a Conn as its ticker sees it while calls begin.
type activity Conn

// Tick implements ticked.
func (a *activity) Tick() bool {
	c := (*Conn)(a)
	r := &c.role
	if r.TickRecent() {
		return true // without the lock, which a busy connection has enough use for
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	do, more := r.Tick(r.waiters.Len() > 0)
	c.act(do)
	return more
}

// readable is called, in a goroutine of its own, when the watched connection has input. It reads
// everything that has arrived, and makes the connection watched again.
func (c *Conn) readable() {
	r := &c.role
	r.mu.Lock()
	mine := r.Notice()
	r.mu.Unlock()
	if !mine {
		return // Notice has remembered it: whoever has the role may have looked before this input came
	}
	for {
		n, err := c.readOnce(false)
		if errors.Is(err, errLostRole) {
			return
		}
		if err != nil && !errors.Is(err, errInterrupted) {
			break // the connection has failed
		}
		if n == 0 {
			break // all has been read; the watcher is armed for what comes after it
		}
	}
	c.rearm()
}

// rearm gives the role back when a watcher is done.
func (c *Conn) rearm() {
	blocked := c.rcv.Backlog.Full() // memoryBack will see to it
	c.role.mu.Lock()
	c.release(!blocked)
	c.role.leave()
}

// parked is the watcher of a link that has no other. It reads until somebody wants the role.
func (c *Conn) parked() {
	r := &c.role
	for {
		_, err := c.readOnce(true)
		if err == nil {
			continue
		}
		if errors.Is(err, errLostRole) {
			return
		}
		r.mu.Lock()
		if !errors.Is(err, errInterrupted) || c.ended() || r.Wanted(r.waiters.Len() > 0) {
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
	c.role.mu.Lock()
	defer c.role.mu.Unlock()
	if c.role.State() == readCaller { // others do not wait for a Waiter
		c.interrupt()
	}
}

// interrupt makes a reader that waits return, with role.mu held. At the end of the connection finish owns the read
// deadline.
func (c *Conn) interrupt() {
	if c.role.State() >= readDrainer {
		return
	}
	c.link.Interrupt()
	if h := c.memory.hint; h != nil {
		hint(h)
	}
}

// clearInterrupt makes reads wait again, with role.mu held. After a failure they must not wait.
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
	r := &c.role
	r.mu.Lock()
	defer r.mu.Unlock()
	do, ok := r.Serve()
	if !ok {
		return verbs.ErrServing
	}
	c.act(do)
	var w Waiter
	w.Reset()
	for !r.Take(readServer) {
		if c.ended() {
			return nil // Serve waits for done, and returns the error
		}
		r.enqueue(&w)
		r.mu.Unlock()
		<-w.ch
		r.mu.Lock()
		w.place.Leave()
	}
	c.link.Forget() // one goroutine reads until the end: nothing is to be noticed any more
	return nil
}

// serve reads until the connection fails or the role is lost.
func (c *Conn) serve() {
	for c.role.State() == readServer {
		_, err := c.readOnce(true)
		switch {
		case err == nil:
			continue
		case errors.Is(err, errLostRole):
			return
		case errors.Is(err, errInterrupted) && !c.ended():
			c.role.mu.Lock()
			c.clearInterrupt()
			c.role.mu.Unlock()
			continue
		}
		c.freeReader()
		return
	}
}

// errLostRole: the reading role was taken over while an upcall ran. The former holder no longer
// touches the receiving half.
var errLostRole = errors.New("rdmap: reading role taken over")

// readOnce reads once and handles every FPDU that is complete. It is for the holder of the role. n is
// the number of octets read. The error is errInterrupted, errLostRole, or that of a connection that has
// failed.
func (c *Conn) readOnce(wait bool) (n int, err error) {
	if err := c.beforeRead(wait); err != nil {
		return 0, err
	}
	return c.afterRead(c.link.Read((*inlet)(c), wait))
}

// beforeRead returns why nothing can be read now, or nil.
func (c *Conn) beforeRead(wait bool) error {
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

func (c *Conn) afterRead(n int, err error) (int, error) {
	if err != nil {
		if errors.Is(err, errInterrupted) {
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

// handle parses what is staged, runs the upcalls, and flushes what they have posted.
func (c *Conn) handle() error {
	c.mu.Lock()
	c.writer.Cork()
	c.executes = c.executesHere()
	c.mu.Unlock()
	err := c.parse()
	if errors.Is(err, errLostRole) {
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
		return errLostRole
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
	for _, mu := range []*sync.Mutex{&c.role.mu, &c.mu} {
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

// inlet is a Conn as its link sees it. It belongs to the holder of the reading role.
type inlet Conn

// intake is what Room has prepared, for Got.
type intake struct {
	fresh  bool // the staging was borrowed for this read
	placed bool // the octets go to their places
	room   int  // octets of the staging
	much   bool // the last read filled its room, or brought more than a small staging holds
}

// Room implements source. A link that waits with the memory gets little, unless the peer sends much.
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
	if in.fresh && !held && c.snd.Long.Load() > 0 {
		flat = flat[:engine.ShortRead] // a header tells where the rest belongs, so that it is not copied
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

// upcall delivers st.Msg. Its error is errLostRole, or that of a connection that has failed.
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
	if c.role.State() != readServer {
		return nil // another holder has a wait of its own to return to
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
	} else if err := c.handle(); errors.Is(err, errLostRole) {
		return
	}
	if c.role.State() == readServer {
		c.serve()
		return
	}
	c.rearm()
}

// memoryWake wakes a connection that waits for the Pool.
type memoryWake struct {
	back atomic.Bool   // memory came back
	hint chan struct{} // wakes a holder that does not read; under role.mu
}

// memoryBack is called when memory has come back to the Pool.
func (c *Conn) memoryBack() {
	c.memory.back.Store(true) // before the lock: a holder that has it sees one of the two
	r := &c.role
	r.mu.Lock()
	if r.Take(readWatcher) {
		r.mu.Unlock()
		if !errors.Is(c.handle(), errLostRole) {
			c.rearm()
		}
		return
	}
	c.interrupt()
	r.mu.Unlock()
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
		if errors.Is(err, errLostRole) { // whoever took over has left held, not st
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
	return errInterrupted
}

// waitMemory waits until memory comes back to the Pool, or somebody interrupts.
func (c *Conn) waitMemory() {
	c.role.mu.Lock()
	if c.memory.hint == nil {
		c.memory.hint = make(chan struct{}, 1)
	}
	ch := c.memory.hint
	if c.link.Interrupted() || c.memory.back.Load() {
		hint(ch) // it came before there was a channel
	}
	c.role.mu.Unlock()
	t := time.NewTimer(c.cfg.Timeouts.Memory)
	defer t.Stop()
	select {
	case <-ch:
	case <-t.C:
	}
}
