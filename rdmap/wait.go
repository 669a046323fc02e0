package rdmap

import (
	"context"
	"errors"

	"github.com/stag-rdma/stag/rdmap/internal/drive"
)

// Wait returns w's error when w is complete, or ctx's error when ctx ends. If both are so, w's error
// wins. While it waits, the goroutine may hold the reading role and run upcalls. If the connection
// ends and w is not complete, Wait returns the connection's error. While another goroutine runs
// Handshake, Wait first waits for that, even if ctx ends; before Handshake it returns ErrNoHandshake.
func (c *Conn) Wait(ctx context.Context, w *Waiter) error {
	if w.Done() {
		return w.err
	}
	if err := c.begun(); err != nil {
		return err
	}
	c.called()
	c.waiting.Add(1)
	if w.conn.Load() != c {
		w.conn.Store(c)
	}
	r := &c.reader
	r.mu.Lock()
	for {
		err, over := c.waited(ctx, w)
		if over {
			w.dequeue()
			r.leave()
			c.waiting.Add(-1)
			return err
		}
		c.act(r.Call()) // called does nothing while input is handled, and that was a while ago
		// After a failure the role is for finish, which tells all waiters. A waiter that took it
		// again and again, only to find nothing to read, would keep finish from getting it.
		if !c.ended() && r.Take(drive.Waiter) {
			w.dequeue()
			r.mu.Unlock()
			c.lead(ctx, w)
			r.mu.Lock()
			continue
		}
		r.enqueue(w)
		r.mu.Unlock()
		w.sleep(ctx)
		r.mu.Lock()
		r.woken.awake()
	}
}

// waited reports whether there is nothing more to wait for, with reader.mu held.
func (c *Conn) waited(ctx context.Context, w *Waiter) (err error, over bool) {
	switch {
	case w.Done():
		return w.err, true
	case ctx.Err() != nil:
		return ctx.Err(), true
	case c.reader.State() == drive.Ended:
		return c.Err(), true
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
func (c *Conn) lead(ctx context.Context, w *Waiter) {
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, c.interruptWaiter)
		defer stop()
	}
	for ctx.Err() == nil && w.state.CompareAndSwap(waiterPending, waiterReads) {
		_, err := c.readBurstFor(w)
		switch {
		case err == nil:
			continue
		case errors.Is(err, errLostRole):
			return
		case errors.Is(err, drive.ErrInterrupted):
			c.reader.mu.Lock()
			c.clearInterrupt()
			c.reader.mu.Unlock()
			if !c.ended() {
				continue
			}
		}
		break
	}
	c.freeReader()
}

// readBurstFor is readBurst for a leader in the state waiterReads. That state ends with the wait for
// input, so that if what it reads completes w, no interrupt is needed.
func (c *Conn) readBurstFor(w *Waiter) (int, error) {
	if err := c.beforeRead(true); err != nil {
		w.state.CompareAndSwap(waiterReads, waiterPending)
		return 0, err
	}
	n, err := c.link.Read((*source)(c), true, c.waiting.Load() <= 1)
	w.state.CompareAndSwap(waiterReads, waiterPending)
	return c.afterRead(n, err)
}
