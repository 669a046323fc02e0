package transport

import (
	"context"
	"fmt"
)

// waitCredit waits until wakeQueue has begun p. It returns with p out of the queue,
// and active if nil.
func (c *Client) waitCredit(ctx context.Context, p *outcall) error {
	err := c.conn.Wait(ctx, &p.w)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue.remove(p)
	switch {
	case err == nil && p.active:
		p.w.Reset()
		return nil
	case c.err != nil && (err == nil || ctx.Err() == nil):
		return c.err
	}
	return fmt.Errorf("no credit: all %d are in use: %w", c.req.InFlight(), err)
}

// wakeQueue begins the calls at the head of the queue for which there are credits.
// c.mu is held.
func (c *Client) wakeQueue() {
	for !c.queue.empty() && c.req.Available() > 0 {
		p := c.queue.pop()
		if p.w.Done() {
			continue // out of time; its caller is about to look
		}
		err := c.req.Begin(&p.rc)
		p.active = err == nil
		p.w.Complete(err)
	}
}

// callQueue is a FIFO of calls, linked through them.
type callQueue struct{ head, tail *outcall }

func (q *callQueue) empty() bool { return q.head == nil }

func (q *callQueue) push(p *outcall) {
	p.queued, p.prev, p.next = true, q.tail, nil
	if q.tail == nil {
		q.head = p
	} else {
		q.tail.next = p
	}
	q.tail = p
}

func (q *callQueue) pop() *outcall {
	p := q.head
	if p != nil {
		q.remove(p)
	}
	return p
}

// remove takes p out; it does nothing if p is not queued.
func (q *callQueue) remove(p *outcall) {
	if !p.queued {
		return
	}
	if p.prev == nil {
		q.head = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		q.tail = p.prev
	} else {
		p.next.prev = p.prev
	}
	p.queued, p.prev, p.next = false, nil, nil
}
