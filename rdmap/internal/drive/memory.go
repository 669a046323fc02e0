package drive

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// wake wakes a connection that waits for the Pool.
type wake struct {
	retry atomic.Bool   // memory came back
	hint  chan struct{} // wakes a holder that does not read; under role.mu
}

// memoryBack is called when memory has come back to the Pool.
func (d *Driver) memoryBack() {
	d.wake.retry.Store(true)
	r := &d.role
	r.mu.Lock()
	if r.Take(Watcher) {
		r.mu.Unlock()
		if !errors.Is(d.handle(), errLostRole) {
			d.rearm()
		}
		return
	}
	d.interrupt()
	r.mu.Unlock()
}

// stalled begins to wait for memory. After half of Timeouts.Memory it reclaims the memory of Sends
// that began before the wait and have not ended.
func (d *Driver) stalled() {
	d.stalls.Add(1)
	wait := &d.rcv.Wait
	wait.Begin(time.Now())
	mem, turn := d.cfg.Receiver.Pool, wait.Turns()
	last := mem.Last()
	time.AfterFunc(d.cfg.Receiver.Memory/2, func() {
		if wait.Turns() == turn {
			mem.Reclaim(last)
		}
	})
	time.AfterFunc(d.cfg.Receiver.Memory, d.memoryBack)
	d.rcv.WaitMemory()
}

// overdue ends the connection unless the Send with that number is complete by now.
func (d *Driver) overdue(began uint64) {
	if d.rcv.HoldsSend(began) {
		d.fail(&verbs.LocalError{Err: verbs.ErrUnfinishedSend})
	}
}

// replay handles what was put off. It ends early if there is still no memory.
func (d *Driver) replay() error {
	d.wake.retry.Store(false)
	for d.rcv.Backlog.Len() > 0 {
		ev, err := d.rcv.Replay(time.Now())
		switch {
		case err != nil:
			return err
		case ev.Kind == engine.EvBlocked:
			return nil
		case ev.Kind == engine.EvStalled:
			d.stalled()
			return nil
		}
		held, st := d.st, buf.NewStaging(buf.Small)
		err = d.event(st, ev)
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
func (d *Driver) beforeWaitingRead(wait bool) error {
	if d.wake.retry.Load() || d.rcv.Backlog.Full() {
		if err := d.handle(); err != nil {
			return err
		}
	}
	if !d.rcv.Backlog.Full() {
		return nil
	}
	if wait {
		d.waitMemory()
	}
	return ErrInterrupted
}

// waitMemory waits until memory comes back to the Pool, or somebody interrupts.
func (d *Driver) waitMemory() {
	d.role.mu.Lock()
	if d.wake.hint == nil {
		d.wake.hint = make(chan struct{}, 1)
	}
	ch := d.wake.hint
	if d.link.Interrupted() || d.wake.retry.Load() {
		hint(ch)
	}
	d.role.mu.Unlock()
	t := time.NewTimer(d.cfg.Receiver.Memory)
	defer t.Stop()
	select {
	case <-ch:
	case <-t.C:
	}
}
