package drive

import (
	"github.com/stag-rdma/stag/rdmap/internal/engine"
)

// Requests that can block, because they flush to persistence or hash, are executed by the executor of
// the stream. There is one while such a request is at the head of the queue and everything before it
// has been executed and written. If possible the reader itself is the executor, otherwise a goroutine
// is started.

// startExecutor starts the executor if there is work for it, with mu held. In Serve the reader may be
// the executor; see executeHere.
func (d *Driver) startExecutor() {
	if !d.executes && d.claimExecutor() {
		go d.exec.run()
	}
}

// claimExecutor makes the caller the executor if there is work for it, with mu held.
func (d *Driver) claimExecutor() bool {
	if !d.snd.NeedExecutor() {
		return false
	}
	if d.exec == nil {
		d.exec = new(execution)
		d.exec.run = func() { d.executor(IfBlind) }
	}
	return d.snd.Begin(&d.exec.task)
}

// execution is the memory of a connection's executor, of which there is one at a time. It is kept, so
// that a request costs no allocation.
type execution struct {
	task engine.Task
	run  func()
}

// executor carries out the request that has begun, and those after it.
func (d *Driver) executor(mode Patience) {
	t := &d.exec.task
	for more := true; more; {
		if err := t.Run(d.cfg.Receiver.Table); err != nil {
			d.fail(err)
		}
		d.mu.Lock()
		d.snd.Finish(t)
		d.mu.Unlock()
		d.flushIfReady(mode)
		d.mu.Lock()
		more = d.snd.Next(t)
		d.mu.Unlock()
	}
}

// maxHere is the most input, in octets, whose reader may be the executor. After more than
// that, more input is likely to be on its way, and should be placed during the execution.
const maxHere = 128 << 10

// executesHere reports, before input is handled and with mu held, whether its reader will be the
// executor: in Serve, where nobody waits for the reader, and with a watchdog.
func (d *Driver) executesHere() bool {
	return d.role.State() == Server && d.cfg.HandlerLimit > 0 && (d.st == nil || len(d.st.Pending()) <= maxHere)
}

// executeHere makes the reader the executor if there is work for it: to wake a goroutine instead can
// take half of the time of the disk. As in an upcall, the reader loses the role if it takes too long,
// and is then like an executor that was started. So a flush that hangs stops nobody. It reports
// whether the caller still has the role.
func (d *Driver) executeHere() (kept bool) {
	d.mu.Lock()
	d.executes = false
	work := d.claimExecutor()
	d.mu.Unlock()
	if !work {
		return true
	}
	st, s := d.st, d.upcalls.Load()+1
	d.takeovers.Add(-1) // it does not count in MaxTakeovers: there is at most one
	d.upcalls.Store(s)
	d.watchUpcall()
	d.executor(Never)
	if d.upcalls.CompareAndSwap(s, s+1) {
		d.takeovers.Add(1)
		return true
	}
	if st != nil {
		st.Leave()
	}
	return false
}
