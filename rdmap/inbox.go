package rdmap

import (
	"bytes"
	"context"
	"sync"
)

// inbox keeps the messages of a connection without a Handler until Recv takes
// them. It is bounded by the receives posted.
type inbox struct {
	mu      sync.Mutex
	q       ring[event]
	waiters ring[*Waiter]
}

// put takes the message of ev and the memory it lies in.
func (b *inbox) put(ev *event) {
	b.mu.Lock()
	b.q.push(*ev)
	w := b.next()
	b.mu.Unlock()
	if w != nil {
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

// take returns the oldest message, or registers w.
func (b *inbox) take(w *Waiter) (ev event, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.q.len() > 0 {
		return b.q.pop(), true
	}
	w.Reset()
	b.waiters.push(w)
	return ev, false
}

// forget takes w off the list, and passes a wake-up on that it got in vain.
func (b *inbox) forget(w *Waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
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

// settle gives the pool's memory back when the connection is over: what Recv has not
// taken yet is copied.
func (b *inbox) settle(p *Pool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.q.len() {
		ev := b.q.at(i)
		ev.msg.Data = bytes.Clone(ev.msg.Data)
		p.put(ev.buf)
		ev.buf = nil
	}
}

// Recv returns the next message, in the order of delivery. It belongs to the caller.
// It is for connections without a Handler only (ErrHasHandler). For each message
// taken one more receive is posted. Messages that arrived before the connection ended
// are still returned after it.
func (c *Conn) Recv(ctx context.Context) (*Message, error) {
	if c.cfg.Handler != nil {
		return nil, ErrHasHandler
	}
	w := c.spare.get()
	for {
		ev, ok := c.inbox.take(w)
		if ok {
			c.spare.put(w)
			m := ev.msg
			m.Data = append(make([]byte, 0, len(m.Data)), m.Data...)
			c.cfg.Pool.put(ev.buf)
			c.PostRecv(1)
			return &m, nil
		}
		if err := c.Wait(ctx, w); err != nil {
			c.inbox.forget(w)
			return nil, err
		}
	}
}
