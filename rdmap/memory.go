package rdmap

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/drive"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// wake wakes a connection that waits for the Pool.
type wake struct {
	retry atomic.Bool   // memory came back
	hint  chan struct{} // wakes a holder that does not read; under reader.mu
}

// memoryBack is called when memory has come back to the Pool.
func (c *Conn) memoryBack() {
	c.wake.retry.Store(true)
	r := &c.reader
	r.mu.Lock()
	if r.Take(drive.Watcher) {
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
	last := mem.Last()
	time.AfterFunc(c.cfg.Timeouts.Memory/2, func() {
		if wait.Turns() == turn {
			mem.Reclaim(last)
		}
	})
	time.AfterFunc(c.cfg.Timeouts.Memory, c.memoryBack)
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
	c.wake.retry.Store(false)
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
		held, st := c.st, buf.NewStaging(buf.Small)
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
	if c.wake.retry.Load() || c.rcv.Backlog.Full() {
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
	return drive.ErrInterrupted
}

// waitMemory waits until memory comes back to the Pool, or somebody interrupts.
func (c *Conn) waitMemory() {
	c.reader.mu.Lock()
	if c.wake.hint == nil {
		c.wake.hint = make(chan struct{}, 1)
	}
	ch := c.wake.hint
	if c.link.Interrupted() || c.wake.retry.Load() {
		hint(ch)
	}
	c.reader.mu.Unlock()
	t := time.NewTimer(c.cfg.Timeouts.Memory)
	defer t.Stop()
	select {
	case <-ch:
	case <-t.C:
	}
}
