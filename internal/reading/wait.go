package reading

import (
	"context"
	"errors"
	"runtime/debug"
	"sync/atomic"

	"github.com/stag-rdma/stag/internal/list"
)

// Waiter is somebody who waits for an answer, in Role.Wait. The zero value is ready after Reset. A Waiter
// serves one wait at a time, and is meant to be reused: only its first Reset allocates.
//
// If Wait returned early because its context ended, the Waiter may still be completed later. Do not
// call Reset before that has happened or can no longer happen.
type Waiter struct {
	state atomic.Uint32        // one of the states below
	err   error                // valid in waiterDone
	ch    chan struct{}        // one slot; a token is a hint to look again
	on    atomic.Pointer[Role] // the one waited on, or the last one

	place list.Node[Waiter] // in a list of its role; guarded by Mu
}

// States of a Waiter.
const (
	// waiterPending: not complete, and nobody sleeps on it. Complete needs to tell nobody. Left by sleep, readFor, Complete.
	waiterPending uint32 = iota
	// waiterParked: not complete, and a goroutine sleeps on ch, which Complete wakes, or lets others wake (chain). Left by
	// that goroutine, for whatever reason it wakes, and by Complete.
	waiterParked
	// waiterReads: not complete, and its goroutine waits for input, which Complete has to interrupt. Left before the input
	// is handled, so that a completion by an answer needs no interrupt, and by Complete.
	waiterReads
	// waiterDone: complete. Left by Reset.
	waiterDone
)

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
	w.err = err // before the state, which publishes it
	if w.state.Load() == waiterParked && w.completeParked() {
		return
	}
	ch := w.ch // after the swap, w may be reset by its owner
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
	r, ch := w.on.Load(), w.ch
	if r == nil { // in WaitAlone
		alone := w.state.CompareAndSwap(waiterParked, waiterDone)
		if alone {
			hint(ch)
		}
		return alone
	}
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if !w.state.CompareAndSwap(waiterParked, waiterDone) {
		return false
	}
	if w.on.Load() == r { // then it cannot leave Wait as long as Mu is held
		r.woken.wake(w)
	} else {
		hint(ch)
	}
	return true
}

// Done reports whether w is complete.
func (w *Waiter) Done() bool { return w.state.Load() == waiterDone }

// Reads reports whether the goroutine of w waits for input.
func (w *Waiter) Reads() bool { return w.state.Load() == waiterReads }

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
// Everything is done with Mu held. As long as somebody waits in the chain, somebody else was
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

// Wait returns w's error when w is complete, or ctx's error when ctx ends. If both are so, w's error wins. While it waits,
// the goroutine may hold the reading role and run upcalls. If the connection ends and w is not complete, Wait returns the
// connection's error.
func (r *Role) Wait(ctx context.Context, w *Waiter) error {
	if w.on.Load() != r {
		w.on.Store(r)
	}
	slept, returns := false, false
	defer func() {
		if !returns { // ctx has panicked: w stays in the queue, so nobody behind it would be woken
			r.owner.Abort(debug.Stack())
		}
	}()
	for {
		ended := ctx.Err() // it may panic, so it gets no lock
		r.Mu.Lock()
		if slept {
			r.woken.awake()
			slept = false
		}
		err, over := r.waited(ended, w)
		if over {
			returns = true
			w.place.Leave()
			r.leave() // it may have been woken for the role, which the next one then gets
			return err
		}
		r.Act(r.Call()) // Begin does nothing while input is handled, and that was a while ago
		// After a failure the role is for the end of the connection, which tells all waiters. A waiter that took it
		// again and again, only to find nothing to read, would keep that from getting it.
		if !r.owner.Ended() && r.Take(Caller) {
			w.place.Leave()
			r.Mu.Unlock()
			r.lead(ctx, w)
			continue
		}
		r.enqueue(w)
		r.Mu.Unlock()
		w.sleep(ctx)
		slept = true
	}
}

// WaitAlone is Role.Wait where nobody shares a reading role: another goroutine completes w, and closes over when it will
// not anymore, for the reason that why returns.
func (w *Waiter) WaitAlone(ctx context.Context, over <-chan struct{}, why func() error) error {
	if w.on.Load() != nil {
		w.on.Store(nil) // before it can be parked: Complete then finds it
	}
	for !w.Done() {
		if !w.state.CompareAndSwap(waiterPending, waiterParked) {
			continue
		}
		var err error
		select {
		case <-w.ch:
		case <-ctx.Done():
			err = ctx.Err()
		case <-over:
			err = why()
		}
		if w.state.CompareAndSwap(waiterParked, waiterPending) && err != nil {
			return err
		}
	}
	return w.err
}

// waited reports whether there is nothing more to wait for, with Mu held. ended is the error of the context.
func (r *Role) waited(ended error, w *Waiter) (err error, over bool) {
	switch {
	case w.Done():
		return w.err, true
	case ended != nil: // after w: its error wins
		return ended, true
	case r.State() == Ended:
		return r.owner.Err(), true
	}
	return nil, false
}

// sleep returns when w is complete or woken, or when ctx ends.
func (w *Waiter) sleep(ctx context.Context) {
	if !w.state.CompareAndSwap(waiterPending, waiterParked) {
		return // completed between the check and here
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
func (r *Role) lead(ctx context.Context, w *Waiter) {
	mine := true
	defer func() { // also if ctx panics
		if mine {
			r.Free()
		}
	}()
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, r.interruptWaiter)
		defer stop()
	}
	for ctx.Err() == nil && w.state.CompareAndSwap(waiterPending, waiterReads) {
		_, err := r.readFor(w)
		switch {
		case err == nil:
			continue
		case errors.Is(err, ErrLostRole):
			mine = false
			return
		case errors.Is(err, ErrInterrupted):
			r.resumed()
			if !r.owner.Ended() {
				continue // the loop looks at what may have been the reason
			}
		}
		break
	}
}

// readFor is ReadOnce in the state waiterReads. That state ends with the wait for
// input, so that if what it reads completes w, no interrupt is needed.
func (r *Role) readFor(w *Waiter) (int, error) {
	if err := r.owner.Before(true); err != nil {
		w.state.CompareAndSwap(waiterReads, waiterPending)
		return 0, err
	}
	n, err := r.link.Read(r.owner, true)
	w.state.CompareAndSwap(waiterReads, waiterPending)
	return r.owner.After(n, err)
}
