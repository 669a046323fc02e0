package rdmap

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/stag-rdma/stag/internal/list"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// Waiter is a Completer that Conn.Wait can wait for. The zero value is ready after Reset. A Waiter
// serves one wait at a time, and is meant to be reused: only its first Reset allocates.
//
// If Wait returned early because its context ended, the Waiter may still be completed later. Do not
// call Reset before that has happened or can no longer happen.
type Waiter struct {
	state atomic.Uint32        // one of the states below
	err   error                // valid in waiterDone
	ch    chan struct{}        // one slot; a token is a hint to look again
	on    atomic.Pointer[Conn] // the one waited on, or the last one

	place list.Node[Waiter] // in a list of its role; guarded by role.mu
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
	c, ch := w.on.Load(), w.ch
	r := &c.role
	r.mu.Lock()
	defer r.mu.Unlock()
	if !w.state.CompareAndSwap(waiterParked, waiterDone) {
		return false
	}
	if w.on.Load() == c { // then it cannot leave Wait as long as mu is held
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

// Wait returns w's error when w is complete, or ctx's error when ctx ends. If both are so, w's error
// wins. While it waits, the goroutine may hold the reading role and run upcalls. If the connection
// ends and w is not complete, Wait returns the connection's error. While another goroutine runs
// Handshake, Wait first waits for that, even if ctx ends; before Handshake it returns ErrNoHandshake.
func (c *Conn) Wait(ctx context.Context, w *Waiter) error {
	if w.Done() {
		return w.err // whatever has become of the connection
	}
	if err := c.begun(); err != nil {
		return err
	}
	c.called()
	c.waiting.Add(1) // posters then give others a moment to append
	if w.on.Load() != c {
		w.on.Store(c)
	}
	r := &c.role
	slept, returns := false, false
	defer func() {
		if !returns { // ctx has panicked: w stays in the queue, so nobody behind it would be woken
			c.end(fmt.Errorf("%w: in a context\n%s", verbs.ErrPanic, debug.Stack()), false)
		}
	}()
	for {
		ended := ctx.Err() // it may panic, so it gets no lock
		r.mu.Lock()
		if slept {
			r.woken.awake()
			slept = false
		}
		err, over := c.waited(ended, w)
		if over {
			returns = true
			w.place.Leave()
			r.leave() // it may have been woken for the role, which the next one then gets
			c.waiting.Add(-1)
			return err
		}
		c.act(r.Call()) // called does nothing while input is handled, and that was a while ago
		// After a failure the role is for finish, which tells all waiters. A waiter that took it
		// again and again, only to find nothing to read, would keep finish from getting it.
		if !c.ended() && r.Take(readCaller) {
			w.place.Leave()
			r.mu.Unlock()
			c.lead(ctx, w)
			continue
		}
		r.enqueue(w)
		r.mu.Unlock()
		w.sleep(ctx)
		slept = true
	}
}

// waited reports whether there is nothing more to wait for, with role.mu held. ended is the error of the context.
func (c *Conn) waited(ended error, w *Waiter) (err error, over bool) {
	switch {
	case w.Done():
		return w.err, true
	case ended != nil: // after w: its error wins
		return ended, true
	case c.role.State() == readEnded:
		return c.Err(), true
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
func (c *Conn) lead(ctx context.Context, w *Waiter) {
	mine := true
	defer func() { // also if ctx panics
		if mine {
			c.freeReader()
		}
	}()
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, c.interruptWaiter)
		defer stop()
	}
	for ctx.Err() == nil && w.state.CompareAndSwap(waiterPending, waiterReads) {
		_, err := c.readFor(w)
		switch {
		case err == nil:
			continue
		case errors.Is(err, errLostRole):
			mine = false
			return
		case errors.Is(err, errInterrupted):
			c.role.mu.Lock()
			c.clearInterrupt()
			c.role.mu.Unlock()
			if !c.ended() {
				continue // the loop looks at what may have been the reason
			}
		}
		break
	}
}

// readFor is readOnce in the state waiterReads. That state ends with the wait for
// input, so that if what it reads completes w, no interrupt is needed.
func (c *Conn) readFor(w *Waiter) (int, error) {
	if err := c.beforeRead(true); err != nil {
		w.state.CompareAndSwap(waiterReads, waiterPending)
		return 0, err
	}
	n, err := c.link.Read((*inlet)(c), true)
	w.state.CompareAndSwap(waiterReads, waiterPending)
	return c.afterRead(n, err)
}

// waitRoom waits until the send queue may have room again.
func (c *Conn) waitRoom(ctx context.Context) error {
	var w Waiter
	w.Reset()
	c.mu.Lock()
	if c.snd.Copied == 0 {
		c.mu.Unlock()
		return nil
	}
	c.full = append(c.full, &w)
	c.mu.Unlock()
	return c.Wait(ctx, &w)
}

// wakeFull appends the Waiters that wait for room to due, with mu held. All are woken: how much room each needs is
// known only to itself.
func (c *Conn) wakeFull(due []engine.Completion) []engine.Completion {
	for i, w := range c.full {
		due = append(due, engine.Completion{Done: w})
		c.full[i] = nil
	}
	c.full = c.full[:0]
	return due
}
