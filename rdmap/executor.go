package rdmap

import (
	"github.com/stag-rdma/stag/rdmap/internal/drive"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// Requests that can block, because they flush to persistence or hash, are executed by the executor of
// the stream. There is one while such a request is at the head of the queue and everything before it
// has been executed and written. If possible the reader itself is the executor, otherwise a goroutine
// is started.

// inlineVerify is the largest number of octets of plain memory that is hashed without an executor.
const inlineVerify = 4096

// blocks reports whether a request may take long.
func (r *request) blocks() bool {
	switch r.op {
	case verbs.OpFlushRequest:
		return verbs.FlushFlags(r.body[targetLen+3])&verbs.FlushPersistent != 0
	case verbs.OpVerifyRequest:
		var g target
		g.parse(r.body[:])
		return r.slow || g.n > inlineVerify
	default:
		return false
	}
}

// stores reports whether the request changes memory.
func (r *request) stores() bool {
	return r.op == verbs.OpAtomicRequest || r.op == verbs.OpAtomicWriteRequest
}

// needExecutor reports whether the head of the requests waits for an executor.
func (s *sender) needExecutor() bool {
	return s.rq.Len() > 0 && s.handed == 0 && !s.executing && !s.aborted && !s.rq.At(0).answerable()
}

// answerable reports whether a response may be handed to the flusher.
func (it *item) answerable() bool { return it.executed || !it.req.blocks() }

// startExecutor starts the executor if there is work for it, with mu held. In Serve the reader may be
// the executor; see executeHere.
func (c *Conn) startExecutor() {
	if !c.reader && c.claimExecutor() {
		go c.exec.run()
	}
}

// claimExecutor makes the caller the executor if there is work for it, with mu held.
func (c *Conn) claimExecutor() bool {
	if !c.snd.needExecutor() {
		return false
	}
	c.snd.executing = true
	if c.exec == nil {
		c.exec = new(execution)
		c.exec.run = func() { c.executor(drive.IfBlind) }
	}
	return true
}

// execution is the memory of a connection's executor, of which there is one at a time. It is kept, so
// that a request costs no allocation.
type execution struct {
	it  item
	run func()
}

func (c *Conn) executor(mode drive.Patience) {
	it := &c.exec.it
	c.mu.Lock()
	for c.snd.executing = false; c.snd.needExecutor(); c.snd.executing = false {
		c.snd.executing = true
		*it = *c.snd.rq.At(0)
		c.mu.Unlock()
		if err := it.execute(c.table); err != nil {
			c.fail(err)
		}
		c.mu.Lock()
		if c.snd.aborted {
			break
		}
		it.executed = true
		*c.snd.rq.At(0) = *it
		c.mu.Unlock()
		c.flushIfReady(mode)
		c.mu.Lock()
	}
	*it = item{}
	c.snd.executing = false
	c.mu.Unlock()
}

// maxHere is the largest burst, in octets of input, whose reader may be the executor. After more than
// that, more input is likely to be on its way, and should be placed during the execution.
const maxHere = 128 << 10

// executesHere reports, at the beginning of a burst and with mu held, whether its reader will be the
// executor: in Serve, where nobody waits for the reader, and with a watchdog.
func (c *Conn) executesHere() bool {
	return c.serving && c.cfg.HandlerLimit > 0 && (c.st == nil || len(c.st.Pending()) <= maxHere)
}

// executeHere makes the reader the executor if there is work for it: to wake a goroutine instead can
// take half of the time of the disk. As in an upcall, the reader loses the role if it takes too long,
// and is then like an executor that was started. So a flush that hangs stops nobody. It reports
// whether the caller still has the role.
func (c *Conn) executeHere() (kept bool) {
	c.mu.Lock()
	c.reader = false
	work := c.claimExecutor()
	c.mu.Unlock()
	if !work {
		return true
	}
	st, s := c.st, c.upcalls.Load()+1
	c.takeovers.Add(-1) // it does not count in MaxTakeovers: there is at most one
	c.upcalls.Store(s)
	c.watchUpcall()
	c.executor(drive.Never)
	if c.upcalls.CompareAndSwap(s, s+1) {
		c.takeovers.Add(1)
		return true
	}
	if st != nil {
		st.Leave()
	}
	return false
}
