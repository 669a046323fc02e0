package rdmap

import (
	"runtime"

	"github.com/stag-rdma/stag/internal/reading"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// Post submits work requests: all of them, adjacent and in order, or none. Outside upcalls it
// flushes, or leaves that to a goroutine that is already flushing. While an upcall runs, the flush
// follows when everything that was read has been handled. Post does not wait for the peer to read
// (on a net.Conn that is not TCP, the flush may). Errors: misuse (ErrBadWR, ErrTooLong, ErrNoORD,
// ErrNoExtension, ErrSendQueueFull, ErrNoHandshake), or the connection's first fatal error. After an
// error no Done of wrs is called. wrs is borrowed until Post returns; for the payloads see WR.
func (c *Conn) Post(wrs []verbs.WR) error {
	// What can be checked without the lock is: a batch is checked as a whole before anything of it is queued.
	need := engine.ExtBase
	for i := range wrs {
		if err := engine.Misuse(&wrs[i]); err != nil {
			return err
		}
		need |= engine.ExtensionOf(&wrs[i])
	}
	if c.dev != nil {
		return c.postDevice(wrs, need)
	}
	c.called()
	c.mu.Lock()
	if err := c.postable(wrs, need); err != nil {
		c.mu.Unlock()
		return err
	}
	c.snd.PostAll(wrs)
	mine := c.write()
	c.mu.Unlock()
	if !mine {
		return nil
	}
	if c.role.State() == reading.Server || c.waiting.Load() > 0 {
		// Others wait for answers, or this is an answer and others are being prepared: more is
		// likely to be posted in a moment. Let them append first, and write once for all.
		runtime.Gosched()
	}
	c.flush(ifBlind)
	return nil
}

// postable returns why wrs cannot be queued, or nil, with mu held.
func (c *Conn) postable(wrs []verbs.WR, need verbs.Extensions) error {
	switch st := c.snd.State(); {
	case st.Ended():
		return c.snd.Err()
	case st == engine.StateClosing:
		return verbs.ErrClosed
	case !st.Up():
		return verbs.ErrNoHandshake
	case need&^c.snd.Ext != 0:
		return verbs.ErrNoExtension
	case !c.snd.HasRoom(wrs):
		return verbs.ErrSendQueueFull
	}
	if c.snd.ORD == 0 { // a request would wait for ever
		for i := range wrs {
			if engine.Asks(wrs[i].Op) {
				return verbs.ErrNoORD
			}
		}
	}
	return nil
}

// flushTurn is how many batches a reader or a poster writes before a goroutine takes over: they have
// other things to do, and while others post there may be no end to it.
const flushTurn = 2

// FlushPosted, in an upcall, writes what upcalls have posted so far, without waiting for the end of the input
// that is being handled. An upcall that has computed for a while calls it before others follow, so that
// the peer works meanwhile. FlushPosted does not wait; what the socket does not take follows later.
func (c *Conn) FlushPosted() {
	if c.dev != nil {
		return // Post has rung the card's bell
	}
	c.mu.Lock()
	mine := c.writer.Idle() && c.snd.Ready(&c.wk) // also if corked: that is the point
	if mine {
		c.writer.Begin()
	}
	c.mu.Unlock()
	if mine {
		c.flush(never)
	}
}

// write makes the caller the writer if there is something to write and nobody else will, with mu held.
func (c *Conn) write() bool {
	if !c.writer.Rests() || !c.snd.Ready(&c.wk) {
		return false
	}
	c.writer.Begin()
	return true
}

// flush writes until nothing is left. The caller is the writer. If flush would have to wait and may
// not, or if its turn is over, a goroutine takes over.
//
// A poster has the patience ifBlind. The holder of the reading role never waits: two peers that both wait to write, and
// do not read, would wait for ever.
func (c *Conn) flush(mode patience) {
	c.mu.Lock()
	for turn := 1; c.take(); turn++ {
		// Posters go on while FPDUs are built and written: what was taken is the writer's alone.
		c.mu.Unlock()
		ferr := c.wk.Build(c.snd.MULPDU, c.snd.CRC, c.table)
		c.wk.Batch.Begin(c.wk.InMessage())
		done, err := c.link.Write(&c.wk.Batch, mode, c.cfg.Timeouts.Write)
		if !done && err == nil {
			c.mu.Lock()
			c.writer.Block()
			c.mu.Unlock()
			go c.flusher(ferr)
			return
		}
		c.settle(ferr, err)
		if turn == flushTurn && mode != always && c.snd.Ready(&c.wk) {
			c.writer.Block()
			c.mu.Unlock()
			go c.flush(always)
			return
		}
	}
	c.writer.End() // before the lock is released: whoever posts now becomes the writer
	local := c.snd.Local
	c.mu.Unlock()
	if local != nil {
		c.fail(local)
	}
}

// take takes what may go into the next batch, with mu held, and reports whether there is anything.
func (c *Conn) take() bool {
	if c.ended() {
		// Between two batches only: the one that is being written is still being read from.
		c.due = c.snd.Prune(&c.wk, c.due)
		c.mu.Unlock()
		c.fireDue()
		c.mu.Lock()
	}
	return c.snd.Take(&c.wk)
}

// flusher is the goroutine that waits for room in the socket. ferr is why the batch that is being written ends early.
func (c *Conn) flusher(ferr error) {
	_, werr := c.link.Write(&c.wk.Batch, always, c.cfg.Timeouts.Write)
	c.settle(ferr, werr)
	c.mu.Unlock()
	c.flush(always)
}

// settle ends a batch. ferr is the error of building it, werr that of writing it, if any. It returns
// with mu held.
func (c *Conn) settle(ferr, werr error) {
	if werr != nil {
		c.fail(&verbs.ConnError{Op: "write", Err: werr})
	}
	if ferr != nil {
		c.fail(ferr)
	}
	c.mu.Lock()
	c.due = c.snd.Wrote(&c.wk, werr != nil, c.due)
	c.startExecutor() // it waits until everything before its request has been written
	if werr != nil {
		c.snd.Shut() // a Terminate would not arrive either
	}
	c.out.Add(&c.wk.Out)
	c.flushes++
	if c.flushes == 1 && c.keepsAlive {
		c.tick.Add(&c.keepalive) // from the first output on, see engine.Keepalive
	}
	c.due = c.wakeFull(c.due)
	if len(c.due) > 0 {
		c.mu.Unlock()
		c.fireDue()
		c.mu.Lock()
	}
}

func (c *Conn) fireDue() {
	engine.Fire(c.due)
	c.due = c.due[:0]
}

// flushIfReady flushes what is queued, unless somebody else flushes or will. mode is never or
// ifBlind.
func (c *Conn) flushIfReady(mode patience) {
	c.mu.Lock()
	mine := c.write()
	c.mu.Unlock()
	if mine {
		c.flush(mode)
	}
}

// Requests that can block, because they flush to persistence or hash, are executed by the executor of
// the stream. There is one while such a request is at the head of the queue and everything before it
// has been executed and written. If possible the reader itself is the executor, otherwise a goroutine
// is started.

// startExecutor starts the executor if there is work for it, with mu held. In Serve the reader may be
// the executor; see executeHere.
func (c *Conn) startExecutor() {
	if !c.executes && c.claimExecutor() {
		go c.exec.run()
	}
}

// claimExecutor makes the caller the executor if there is work for it, with mu held.
func (c *Conn) claimExecutor() bool {
	if !c.snd.NeedExecutor() {
		return false
	}
	if c.exec == nil {
		c.exec = new(execution)
		c.exec.run = func() { c.executor(ifBlind) }
	}
	return c.snd.Begin(&c.exec.task)
}

// execution is the memory of a connection's executor, of which there is one at a time. It is kept, so
// that a request costs no allocation.
type execution struct {
	task engine.Task
	run  func()
}

// executor carries out the request that has begun, and those after it.
func (c *Conn) executor(mode patience) {
	t := &c.exec.task
	for more := true; more; {
		if err := t.Run(c.table); err != nil { // without a lock: it may take as long as a disk
			c.fail(err)
		}
		c.mu.Lock()
		c.snd.Finish(t)
		c.mu.Unlock()
		c.flushIfReady(mode) // the response before the next request begins (RFC 5040 Section 5.5)
		c.mu.Lock()
		more = c.snd.Next(t)
		c.mu.Unlock()
	}
}

// maxHere is the most input, in octets, whose reader may be the executor. After more than
// that, more input is likely to be on its way, and should be placed during the execution.
const maxHere = 128 << 10

// executesHere reports, before input is handled and with mu held, whether its reader will be the
// executor: in Serve, where nobody waits for the reader, and with a watchdog.
func (c *Conn) executesHere() bool {
	return c.role.State() == reading.Server && c.cfg.Reading.HandlerLimit > 0 && (c.st == nil || len(c.st.Pending()) <= maxHere)
}

// executeHere makes the reader the executor if there is work for it: to wake a goroutine instead can
// take half of the time of the disk. As in an upcall, the reader loses the role if it takes too long,
// and is then like an executor that was started. So a flush that hangs stops nobody. It reports
// whether the caller still has the role.
func (c *Conn) executeHere() (kept bool) {
	c.mu.Lock()
	c.executes = false
	work := c.claimExecutor()
	c.mu.Unlock()
	if !work {
		return true
	}
	st, s := c.st, c.upcalls.Load()+1
	c.takeovers.Add(-1) // it does not count in MaxTakeovers: there is at most one
	c.upcalls.Store(s)
	c.watchUpcall()
	c.executor(never)
	if c.upcalls.CompareAndSwap(s, s+1) {
		c.takeovers.Add(1)
		return true
	}
	if st != nil {
		st.Leave() // the successor has split it, as for an upcall
	}
	return false
}
