package rdmap

import (
	"github.com/stag-rdma/stag/rdmap/internal/drive"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
)

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
		c.exec.run = func() { c.executor(drive.IfBlind) }
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
func (c *Conn) executor(mode drive.Patience) {
	t := &c.exec.task
	for more := true; more; {
		if err := t.Run(c.table); err != nil {
			c.fail(err)
		}
		c.mu.Lock()
		c.snd.Finish(t)
		c.mu.Unlock()
		c.flushIfReady(mode)
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
	return c.reader.State() == drive.Server && c.cfg.Reading.HandlerLimit > 0 && (c.st == nil || len(c.st.Pending()) <= maxHere)
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
