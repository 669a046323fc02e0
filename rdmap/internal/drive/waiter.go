package drive

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/stag-rdma/stag/internal/list"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// States of a Waiter.
const (
	waiterPending uint32 = iota // not complete, nobody sleeps on it
	waiterParked                // not complete, a goroutine sleeps on ch
	waiterReads                 // not complete, its goroutine waits for input in lead
	waiterDone                  // complete
)

// Waiter is a Completer that Driver.Wait can wait for, one wait at a time. It is ready after Reset.
type Waiter struct {
	state atomic.Uint32
	err   error
	ch    chan struct{}          // one slot; a token is a hint to look again
	on    atomic.Pointer[Driver] // the one waited on, or the last one

	place list.Node[Waiter] // in a list of its role; guarded by role.mu
}

// Reset makes w ready for one more completion.
func (w *Waiter) Reset() {
	if w.ch == nil {
		w.ch = make(chan struct{}, 1)
	}
	if len(w.ch) > 0 {
		<-w.ch
	}
	w.err = nil
	w.state.Store(waiterPending)
}

// Complete implements Completer. It may be called from any goroutine, once per
// Reset.
func (w *Waiter) Complete(err error) {
	w.err = err
	if w.state.Load() == waiterParked && w.completeParked() {
		return
	}
	ch := w.ch
	switch w.state.Swap(waiterDone) {
	case waiterParked:
		hint(ch)
	case waiterReads:
		// Completed by somebody other than the reader. w may serve another wait by now;
		// then this interrupts a reader in vain.
		w.on.Load().interruptWaiter()
	}
}

// completeParked is Complete for a w whose goroutine sleeps. It returns false if it no longer does.
func (w *Waiter) completeParked() bool {
	d, ch := w.on.Load(), w.ch
	r := &d.role
	r.mu.Lock()
	defer r.mu.Unlock()
	if !w.state.CompareAndSwap(waiterParked, waiterDone) {
		return false
	}
	if w.on.Load() == d { // then it cannot leave Wait as long as mu is held
		r.woken.wake(w)
	} else {
		hint(ch)
	}
	return true
}

// Done reports whether w is complete.
func (w *Waiter) Done() bool { return w.state.Load() == waiterDone }

// Err returns the error with which w was completed. It is valid once Done returns true.
func (w *Waiter) Err() error { return w.err }

// wake makes the goroutine that sleeps on w check again.
func (w *Waiter) wake() { hint(w.ch) }

func hint(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// chain wakes the goroutines of complete Waiters one by one: each, when it runs, wakes the next. A
// batch of replies wakes many. If all were woken at once, Go's scheduler would spread them over
// threads, which it would wake too: that costs short calls more than they gain. If the callers do
// compute in the meantime, nothing is lost, since each wakes the next first.
//
// Everything is done with role.mu held. As long as somebody waits in the chain, somebody else was
// woken, or was about to check for another reason, and has not called awake yet.
type chain struct {
	waiters list.List[Waiter]
	moving  bool // somebody was woken and has not called awake
}

// wake wakes w, whose goroutine sleeps, now or later.
func (c *chain) wake(w *Waiter) {
	if c.moving {
		c.waiters.Push(&w.place, w)
		return
	}
	w.place.Leave()
	c.moving = true
	w.wake()
}

// awake is called by every goroutine that has slept.
func (c *chain) awake() {
	w := c.waiters.Pop()
	if c.moving = w != nil; c.moving {
		w.wake()
	}
}

// Wait returns w's error when w is complete, or the error of ctx or of the connection if that ends first. While it waits,
// the goroutine may hold the reading role and run upcalls.
func (d *Driver) Wait(ctx context.Context, w *Waiter) error {
	if w.Done() {
		return w.err
	}
	if err := d.begun(); err != nil {
		return err
	}
	d.called()
	d.waiting.Add(1)
	if w.on.Load() != d {
		w.on.Store(d)
	}
	r := &d.role
	slept, returns := false, false
	defer func() {
		if !returns { // ctx has panicked: w stays in the queue, so nobody behind it would be woken
			d.End(fmt.Errorf("%w: in a context\n%s", verbs.ErrPanic, debug.Stack()), false)
		}
	}()
	for {
		ended := ctx.Err() // it may panic, so it gets no lock
		r.mu.Lock()
		if slept {
			r.woken.awake()
			slept = false
		}
		err, over := d.waited(ended, w)
		if over {
			returns = true
			w.place.Leave()
			r.leave()
			d.waiting.Add(-1)
			return err
		}
		d.act(r.Call()) // called does nothing while input is handled, and that was a while ago
		// After a failure the role is for finish, which tells all waiters. A waiter that took it
		// again and again, only to find nothing to read, would keep finish from getting it.
		if !d.ended() && r.Take(Caller) {
			w.place.Leave()
			r.mu.Unlock()
			d.lead(ctx, w)
			continue
		}
		r.enqueue(w)
		r.mu.Unlock()
		w.sleep(ctx)
		slept = true
	}
}

// waited reports whether there is nothing more to wait for, with role.mu held. ended is the error of the context.
func (d *Driver) waited(ended error, w *Waiter) (err error, over bool) {
	switch {
	case w.Done():
		return w.err, true
	case ended != nil:
		return ended, true
	case d.role.State() == Ended:
		return d.Err(), true
	}
	return nil, false
}

// sleep returns when w is complete or woken, or when ctx ends.
func (w *Waiter) sleep(ctx context.Context) {
	if !w.state.CompareAndSwap(waiterPending, waiterParked) {
		return
	}
	if done := ctx.Done(); done == nil {
		<-w.ch
	} else {
		select {
		case <-w.ch:
		case <-done:
		}
	}
	if w.state.Load() == waiterParked {
		w.state.CompareAndSwap(waiterParked, waiterPending)
	}
}

// lead reads until w is complete, ctx ends or the connection has failed. When it returns, the role is
// given back or lost.
func (d *Driver) lead(ctx context.Context, w *Waiter) {
	mine := true
	defer func() { // also if ctx panics
		if mine {
			d.freeReader()
		}
	}()
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, d.interruptWaiter)
		defer stop()
	}
	for ctx.Err() == nil && w.state.CompareAndSwap(waiterPending, waiterReads) {
		_, err := d.readFor(w)
		switch {
		case err == nil:
			continue
		case errors.Is(err, errLostRole):
			mine = false
			return
		case errors.Is(err, ErrInterrupted):
			d.role.mu.Lock()
			d.clearInterrupt()
			d.role.mu.Unlock()
			if !d.ended() {
				continue
			}
		}
		break
	}
}

// readFor is readOnce in the state waiterReads. That state ends with the wait for
// input, so that if what it reads completes w, no interrupt is needed.
func (d *Driver) readFor(w *Waiter) (int, error) {
	if err := d.beforeRead(true); err != nil {
		w.state.CompareAndSwap(waiterReads, waiterPending)
		return 0, err
	}
	n, err := d.link.Read((*source)(d), true)
	w.state.CompareAndSwap(waiterReads, waiterPending)
	return d.afterRead(n, err)
}
