package rdmap

import (
	"context"

	"github.com/stag-rdma/stag/internal/reading"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
)

// Waiter is a Completer that Conn.Wait can wait for. The zero value is ready after Reset. A Waiter
// serves one wait at a time, and is meant to be reused: only its first Reset allocates.
//
// Its methods are Reset, which makes it ready for one more completion; Complete(error), which may be called from any
// goroutine, once per Reset; Done, which reports whether it is complete, and Err, with what error.
//
// If Wait returned early because its context ended, the Waiter may still be completed later. Do not
// call Reset before that has happened or can no longer happen.
type Waiter = reading.Waiter

// Wait returns w's error when w is complete, or ctx's error when ctx ends. If both are so, w's error
// wins. While it waits, the goroutine may hold the reading role and run upcalls. If the connection
// ends and w is not complete, Wait returns the connection's error. While another goroutine runs
// Handshake, Wait first waits for that, even if ctx ends; before Handshake it returns ErrNoHandshake.
func (c *Conn) Wait(ctx context.Context, w *Waiter) error {
	if w.Done() {
		return w.Err() // whatever has become of the connection
	}
	if c.dev != nil {
		return c.waitDevice(ctx, w)
	}
	if err := c.begun(); err != nil {
		return err
	}
	c.called()
	c.waiting.Add(1) // posters then give others a moment to append
	err := c.role.Wait(ctx, w)
	c.waiting.Add(-1)
	return err
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
