package rdmap

import (
	"bytes"
	"context"
	"sync"

	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// inbox keeps the messages of a connection without a Handler until Recv takes them. It is bounded by
// the number of posted receives.
type inbox struct {
	mu      sync.Mutex
	q       buf.Ring[received]
	waiters buf.Ring[*Waiter] // those in Recv: each message wakes one
}

// received is a message, and the memory of the Pool in which it lies.
type received struct {
	verbs.Message
	mem buf.Mem
}

// put keeps m, whose octets lie in mem, and wakes one of those in Recv.
func (b *inbox) put(m *verbs.Message, mem buf.Mem) {
	b.mu.Lock()
	b.q.Push(received{Message: *m, mem: mem})
	w := b.next()
	b.mu.Unlock()
	if w != nil {
		w.Complete(nil)
	}
}

// next returns the Waiter to be woken for a message, or nil, with mu held.
func (b *inbox) next() *Waiter {
	if b.q.Len() == 0 || b.waiters.Len() == 0 {
		return nil
	}
	return b.waiters.Pop()
}

// take returns the oldest message. If there is none, it registers w.
func (b *inbox) take(w *Waiter) (m received, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.q.Len() > 0 {
		return b.q.Pop(), true
	}
	w.Reset()
	b.waiters.Push(w)
	return m, false
}

// forget removes w from the list. If w was woken already, somebody else is woken in its place.
func (b *inbox) forget(w *Waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.waiters.Len() {
		if *b.waiters.At(i) == w {
			b.waiters.Remove(i)
			return
		}
	}
	if other := b.next(); other != nil {
		other.Complete(nil)
	}
}

// close gives back the memory of the Pool, at the end of the connection: it copies the messages that Recv has not yet
// taken, which are still delivered.
func (b *inbox) close(pool *buf.Pool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.q.Len() {
		m := b.q.At(i)
		m.Data = bytes.Clone(m.Data)
		pool.Put(m.mem)
		m.mem = nil
	}
}

// Recv returns the next message, in the order of delivery. The message belongs to the caller.
// Recv is only for connections without a Handler (ErrHasHandler). It posts one receive for each
// message that it returns. Messages that arrived before the end of the connection are still returned
// after it.
func (c *Conn) Recv(ctx context.Context) (*verbs.Message, error) {
	if c.cfg.Handler != nil {
		return nil, verbs.ErrHasHandler
	}
	w := c.spare.get()
	for {
		m, ok := c.inbox.take(w)
		if ok {
			c.spare.put(w)
			own := m.Message
			own.Data = append(make([]byte, 0, len(m.Data)), m.Data...)
			// The memory before the receive: a peer that learns of the receive at once may need the memory.
			c.cfg.Receives.Pool.mem.Put(m.mem)
			c.PostRecv(1)
			return &own, nil
		}
		if err := c.Wait(ctx, w); err != nil {
			c.inbox.forget(w)
			return nil, err
		}
	}
}
