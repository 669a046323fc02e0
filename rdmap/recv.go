package rdmap

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/drive"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// inbox keeps the messages of a connection without a Handler until Recv takes them. It is bounded by
// the number of posted receives.
type inbox struct {
	drv  *drive.Driver
	pool *buf.Pool

	mu        sync.Mutex
	q         buf.Ring[received]
	solicited int                     // solicited messages in q
	waiters   buf.Ring[*drive.Waiter] // those in Recv: each message wakes one
	alerts    []*drive.Waiter         // those in WaitSolicited: a solicited message wakes all
}

// received is a message, and the memory of the Pool in which it lies.
type received struct {
	verbs.Message
	mem     buf.Mem
	settled bool // its receive has been posted again
}

// Message implements drive.Upcalls.
func (b *inbox) Message(m *verbs.Message, mem buf.Mem) {
	b.mu.Lock()
	b.q.Push(received{Message: *m, mem: mem})
	w := b.next()
	var alerts []*drive.Waiter
	if m.Solicited {
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

// next returns the Waiter to be woken for a message, or nil, with mu held.
func (b *inbox) next() *drive.Waiter {
	if b.q.Len() == 0 || b.waiters.Len() == 0 {
		return nil
	}
	return b.waiters.Pop()
}

// take returns the oldest message. If there is none, it registers w unless w is nil.
func (b *inbox) take(w *drive.Waiter) (m received, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.q.Len() > 0 {
		m = b.q.Pop()
		if m.Solicited {
			b.solicited--
		}
		return m, true
	}
	if w != nil {
		w.Reset()
		b.waiters.Push(w)
	}
	return m, false
}

// alerted reports whether there is a solicited message. If there is none, it registers w.
func (b *inbox) alerted(w *drive.Waiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.solicited == 0 {
		w.Reset()
		b.alerts = append(b.alerts, w)
	}
	return b.solicited > 0
}

// forget removes w from the lists. If w was woken already, somebody else is woken in its place.
func (b *inbox) forget(w *drive.Waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.alerts = slices.DeleteFunc(b.alerts, func(a *drive.Waiter) bool { return a == w })
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

// Idle implements drive.Upcalls.
func (b *inbox) Idle() {}

// Closed implements drive.Upcalls. It gives back the memory of the Pool and the shared receives: it copies the messages
// that Recv has not yet taken.
func (b *inbox) Closed(error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.q.Len() {
		m := b.q.At(i)
		m.Data = bytes.Clone(m.Data)
		b.pool.Put(m.mem)
		m.mem, m.settled = nil, true
		b.drv.PostRecv(1)
	}
}

// release returns m as a message that belongs to the caller, and gives back what it has taken.
func (b *inbox) release(m *received) *verbs.Message {
	own := m.Message
	own.Data = append(make([]byte, 0, len(m.Data)), m.Data...)
	b.pool.Put(m.mem)
	if !m.settled {
		b.drv.PostRecv(1)
	}
	return &own
}

// Recv returns the next message, in the order of delivery. The message belongs to the caller.
// Recv is only for connections without a Handler (ErrHasHandler). It posts one receive for each
// message that it returns. Messages that arrived before the end of the connection are still returned
// after it.
func (c *Conn) Recv(ctx context.Context) (*verbs.Message, error) {
	if c.handler != nil {
		return nil, verbs.ErrHasHandler
	}
	w := c.spare.get()
	for {
		m, ok := c.inbox.take(w)
		if ok {
			c.spare.put(w)
			return c.inbox.release(&m), nil
		}
		if err := c.drv.Wait(ctx, w); err != nil {
			c.inbox.forget(w)
			return nil, err
		}
	}
}

// TryRecv is like Recv, but returns nil if there is no message yet.
func (c *Conn) TryRecv() *verbs.Message {
	if m, ok := c.inbox.take(nil); ok {
		return c.inbox.release(&m)
	}
	return nil
}

// WaitSolicited returns nil when there is a message that asks for an event (SE, RFC 5040 Section 1.2)
// and has not been taken yet; otherwise the error of ctx or of the connection. Other messages are
// queued without waking anybody, and TryRecv takes them all. It is only for connections without a
// Handler (ErrHasHandler).
func (c *Conn) WaitSolicited(ctx context.Context) error {
	if c.handler != nil {
		return verbs.ErrHasHandler
	}
	w := c.spare.get()
	for !c.inbox.alerted(w) {
		if err := c.drv.Wait(ctx, w); err != nil {
			c.inbox.forget(w)
			return err
		}
	}
	c.spare.put(w)
	return nil
}

// RecvQueue is a shared receive queue. Connections whose Config names it take the receives for
// incoming Sends and Immediates from it, first come, first served. Together they never accept more
// messages than receives were posted. A message for which there is no receive ends its own
// connection with the Terminate for "no buffer" (RFC 5041 Section 7.1).
//
// A peer that sends more than its share can use up the receives of the others. Choice:
// Receives.Quota bounds what one connection has taken and not posted again. RFC 5042 Appendix A
// asks for such a local limit, because the protocol has none.
//
// A RecvQueue is safe for concurrent use.
type RecvQueue struct{ q *engine.RecvQueue }

// NewRecvQueue returns a queue with n receives posted.
func NewRecvQueue(n int) *RecvQueue { return &RecvQueue{engine.NewRecvQueue(n)} }

// Post posts n more receives.
func (q *RecvQueue) Post(n int) { q.q.Post(n) }

// Posted returns how many receives are posted and not yet taken.
func (q *RecvQueue) Posted() int { return q.q.Count() }

// Arm asks for the limit event: event is called once, as soon as fewer than limit receives are
// posted, which may be at once. It runs in the goroutine that reads the connection that took the
// receive, or in that of the caller of Arm. It must not block, but may call Post and Arm. A later Arm
// replaces the event, and a limit of 0 disarms it.
func (q *RecvQueue) Arm(limit int, event func()) { q.q.Arm(limit, event) }

// shared returns the receives of q, nil if there is no q.
func (q *RecvQueue) shared() *engine.RecvQueue {
	if q == nil {
		return nil
	}
	return q.q
}
