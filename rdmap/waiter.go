package rdmap

import "sync/atomic"

// States of a Waiter.
const (
	waiterPending uint32 = iota // not complete, nobody sleeps on it
	waiterParked                // not complete, a goroutine sleeps on ch
	waiterReads                 // not complete, its goroutine waits for input in lead
	waiterDone                  // complete
)

// Waiter is a Completer that Conn.Wait can wait for. The zero value is ready after Reset. A Waiter
// serves one wait at a time, and is meant to be reused: only its first Reset allocates.
//
// If Wait returned early because its context ended, the Waiter may still be completed later. Do not
// call Reset before that has happened or can no longer happen.
type Waiter struct {
	state atomic.Uint32
	err   error
	ch    chan struct{}        // one slot; a token is a hint to look again
	conn  atomic.Pointer[Conn] // the one waited on, or the last one

	next, prev *Waiter // in a list of conn's reader; guarded by its mu
	in         *waiters
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
		// then this interrupts a leader in vain.
		w.conn.Load().interruptWaiter()
	}
}

// completeParked is Complete for a w whose goroutine sleeps. It returns false if it no longer does.
func (w *Waiter) completeParked() bool {
	c, ch := w.conn.Load(), w.ch
	r := &c.reader
	r.mu.Lock()
	defer r.mu.Unlock()
	if !w.state.CompareAndSwap(waiterParked, waiterDone) {
		return false
	}
	if w.conn.Load() == c { // then it cannot leave Wait as long as mu is held
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
