package rdmap

import (
	"bytes"
	"context"
	"slices"
	"sync"
)

// inbox keeps the messages of a connection without a Handler until Recv takes
// them. It is bounded by the receives posted.
type inbox struct {
	mu        sync.Mutex
	q         ring[event]
	solicited int           // of q
	waiters   ring[*Waiter] // in Recv: each message wakes one
	alerts    []*Waiter     // in WaitSolicited: a solicited message wakes all
}

// put takes the message of ev and the memory it lies in.
func (b *inbox) put(ev *event) {
	b.mu.Lock()
	b.q.push(*ev)
	w := b.next()
	var alerts []*Waiter
	if ev.msg.Solicited {
		b.solicited++
		alerts, b.alerts = b.alerts, nil
	}
	b.mu.Unlock()
	if w != nil {
		w.Complete(nil)
	}
	for _, w := range alerts {
		w.Complete(nil)
	}
}

// next returns the Waiter to be woken for a message, with mu held.
func (b *inbox) next() *Waiter {
	if b.q.len() == 0 || b.waiters.len() == 0 {
		return nil
	}
	return b.waiters.pop()
}

// take returns the oldest message, or registers w unless it is nil.
func (b *inbox) take(w *Waiter) (ev event, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.q.len() > 0 {
		ev = b.q.pop()
		if ev.msg.Solicited {
			b.solicited--
		}
		return ev, true
	}
	if w != nil {
		w.Reset()
		b.waiters.push(w)
	}
	return ev, false
}

// alerted reports that a solicited message is there, or registers w.
func (b *inbox) alerted(w *Waiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.solicited == 0 {
		w.Reset()
		b.alerts = append(b.alerts, w)
	}
	return b.solicited > 0
}

// forget takes w off the lists, and passes a wake-up on that it got in vain.
func (b *inbox) forget(w *Waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.alerts = slices.DeleteFunc(b.alerts, func(a *Waiter) bool { return a == w })
	for i := range b.waiters.len() {
		if *b.waiters.at(i) == w {
			b.waiters.remove(i)
			return
		}
	}
	if other := b.next(); other != nil {
		other.Complete(nil)
	}
}

// settle gives the pool's memory and the shared receives back when the connection is
// over: what Recv has not taken yet is copied.
func (b *inbox) settle(c *Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.q.len() {
		ev := b.q.at(i)
		ev.msg.Data = bytes.Clone(ev.msg.Data)
		c.cfg.Pool.put(ev.buf)
		ev.buf, ev.settled = nil, true
		c.PostRecv(1)
	}
}

// Recv returns the next message, in the order of delivery. The message belongs to the caller.
// Recv is only for connections without a Handler (ErrHasHandler). It posts one more receive for
// each message. Messages that arrived before the connection ended are still returned afterwards.
func (c *Conn) Recv(ctx context.Context) (*Message, error) {
	if c.cfg.Handler != nil {
		return nil, ErrHasHandler
	}
	w := c.spare.get()
	for {
		ev, ok := c.inbox.take(w)
		if ok {
			c.spare.put(w)
			return c.received(&ev), nil
		}
		if err := c.Wait(ctx, w); err != nil {
			c.inbox.forget(w)
			return nil, err
		}
	}
}

// TryRecv is like Recv, but returns nil if there is no message yet.
func (c *Conn) TryRecv() *Message {
	if ev, ok := c.inbox.take(nil); ok {
		return c.received(&ev)
	}
	return nil
}

// received makes the caller's message of ev.
func (c *Conn) received(ev *event) *Message {
	m := ev.msg
	m.Data = append(make([]byte, 0, len(m.Data)), m.Data...)
	c.cfg.Pool.put(ev.buf)
	if !ev.settled {
		c.PostRecv(1)
	}
	return &m
}

// WaitSolicited returns when there is a message that asks for an event (SE, RFC 5040 Section 4.3)
// and was not taken yet, or with the error that ends the connection. Other messages queue without
// waking anybody, and TryRecv takes them all. It is only for connections without a Handler
// (ErrHasHandler).
func (c *Conn) WaitSolicited(ctx context.Context) error {
	if c.cfg.Handler != nil {
		return ErrHasHandler
	}
	w := c.spare.get()
	for !c.inbox.alerted(w) {
		if err := c.Wait(ctx, w); err != nil {
			c.inbox.forget(w)
			return err
		}
	}
	c.spare.put(w)
	return nil
}
