package drive

import (
	"errors"
	"sync"

	"github.com/stag-rdma/stag/internal/list"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// role is the reading role of a connection and those who wait for it. Whoever leaves, for whatever reason, and finds the role
// free and the queue not empty, wakes the first waiter. A wake is a hint: whoever is woken checks again.
type role struct {
	mu sync.Mutex
	Reader
	waiters list.List[Waiter] // in order of arrival
	woken   chain
	freed   chan struct{} // made by whoever waits for the role to be released; closed then
}

// leave is called by whoever leaves, with mu held, and unlocks it.
func (r *role) leave() {
	if r.State() == Free && r.waiters.Len() > 0 {
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
func (d *Driver) act(a ReaderAction) {
	if a&Unwatch != 0 {
		d.link.Unwatch()
	}
	if a&Interrupt != 0 {
		d.interrupt()
	}
	if a&AddTick != 0 {
		d.tick.Add((*activity)(d))
	}
	if a&Again != 0 {
		go d.readable()
	}
	if a&Watch != 0 && !d.link.Watch(d.ready) {
		d.role.Park()
		go d.parked()
	}
}

// release gives the role back, with role.mu held. rest: if nobody waits, input is to be noticed.
func (d *Driver) release(rest bool) {
	r := &d.role
	d.clearInterrupt()
	if r.freed != nil {
		close(r.freed)
		r.freed = nil
	}
	d.act(r.Release(rest && r.waiters.Len() == 0 && !d.ended()))
}

// freeReader is release for a goroutine that has waited.
func (d *Driver) freeReader() {
	d.role.mu.Lock()
	d.release(false)
	d.role.leave()
}

// called is called when a call begins. On an active connection callers read for themselves, until a tick finds that no
// call has begun since the last tick.
func (d *Driver) called() {
	if !d.role.Recent() {
		d.firstCall()
	}
}

// firstCall is called for the first call since a tick.
func (d *Driver) firstCall() {
	r := &d.role
	if !r.Active() {
		d.mu.Lock()
		inside := d.writer.Corked()
		d.mu.Unlock()
		if inside || !d.snd.State().Up() {
			return // a post inside an upcall is no call, and its reader is busy
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	d.act(r.Call())
	r.Called()
}

// activity is a Driver as its ticker sees it while it is active.
type activity Driver

// Tick implements Ticked.
func (a *activity) Tick() bool {
	d := (*Driver)(a)
	r := &d.role
	if r.TickRecent() {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	do, more := r.Tick(r.waiters.Len() > 0)
	d.act(do)
	return more
}

// readable is called, in a goroutine of its own, when the watched connection has input. It reads
// everything that has arrived, and makes the connection watched again.
func (d *Driver) readable() {
	r := &d.role
	r.mu.Lock()
	mine := r.Notice()
	r.mu.Unlock()
	if !mine {
		return
	}
	for {
		n, err := d.readOnce(false)
		if errors.Is(err, errLostRole) {
			return
		}
		if err != nil && !errors.Is(err, ErrInterrupted) {
			break // the connection has failed
		}
		if n == 0 {
			break
		}
	}
	d.rearm()
}

// rearm gives the role back when a watcher is done.
func (d *Driver) rearm() {
	blocked := d.rcv.Backlog.Full() // memoryBack will see to it
	d.role.mu.Lock()
	d.release(!blocked)
	d.role.leave()
}

// parked is the watcher of a link that has no other. It reads until somebody wants the role.
func (d *Driver) parked() {
	r := &d.role
	for {
		_, err := d.readOnce(true)
		if err == nil {
			continue
		}
		if errors.Is(err, errLostRole) {
			return
		}
		r.mu.Lock()
		if !errors.Is(err, ErrInterrupted) || d.ended() || r.Wanted(r.waiters.Len() > 0) {
			break
		}
		d.clearInterrupt()
		r.mu.Unlock()
	}
	d.release(false)
	r.leave()
}

// interruptWaiter makes a goroutine return that waits for input in Wait.
func (d *Driver) interruptWaiter() {
	d.role.mu.Lock()
	defer d.role.mu.Unlock()
	if d.role.State() == Caller {
		d.interrupt()
	}
}

// interrupt makes a reader that waits return, with role.mu held. At the end of the connection finish owns the read
// deadline.
func (d *Driver) interrupt() {
	if d.role.State() >= Drainer {
		return
	}
	d.link.Interrupt()
	if h := d.wake.hint; h != nil {
		hint(h)
	}
}

// clearInterrupt makes reads wait again, with role.mu held. After a failure they must not wait.
func (d *Driver) clearInterrupt() {
	if !d.ended() {
		d.link.Resume()
	}
}

// Serve gives the reading role to the calling goroutine. It returns when the connection is over, with its error.
func (d *Driver) Serve() error {
	if err := d.startServing(); err != nil {
		return err
	}
	d.serve()
	<-d.done
	return d.Err()
}

func (d *Driver) startServing() error {
	if err := d.begun(); err != nil {
		return err
	}
	r := &d.role
	r.mu.Lock()
	defer r.mu.Unlock()
	do, ok := r.Serve()
	if !ok {
		return verbs.ErrServing
	}
	d.act(do)
	var w Waiter
	w.Reset()
	for !r.Take(Server) {
		if d.ended() {
			return nil
		}
		r.enqueue(&w)
		r.mu.Unlock()
		<-w.ch
		r.mu.Lock()
		w.place.Leave()
	}
	d.link.Forget()
	return nil
}

// serve reads until the connection fails or the role is lost.
func (d *Driver) serve() {
	for d.role.State() == Server {
		_, err := d.readOnce(true)
		switch {
		case err == nil:
			continue
		case errors.Is(err, errLostRole):
			return
		case errors.Is(err, ErrInterrupted) && !d.ended():
			d.role.mu.Lock()
			d.clearInterrupt()
			d.role.mu.Unlock()
			continue
		}
		d.freeReader()
		return
	}
}
