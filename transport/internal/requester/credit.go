package requester

import (
	"context"
	"fmt"
)

// waitCredit waits until wakeQueue has begun p. When it returns, p is not in the queue; if the error is
// nil, p is active.
func (c *Requester) waitCredit(ctx context.Context, p *outstanding) error {
	err := c.conn.Wait(ctx, &p.w)
	c.mu.Lock()
	defer c.mu.Unlock()
	p.place.Leave()
	switch {
	case err == nil && p.active:
		p.w.Reset()
		return nil
	case c.err != nil && (err == nil || ctx.Err() == nil):
		return c.err
	}
	if !c.granted {
		return fmt.Errorf("the server has not answered the first call of the connection, which asks how many it takes: %w", err)
	}
	return fmt.Errorf("no credit: all %d are in use, %d of them by calls whose callers have left, which return them when the server answers: %w",
		c.req.InFlight(), c.req.Canceled(), err)
}

// wakeQueue begins the calls at the head of the queue for which there are credits. The caller holds c.mu.
func (c *Requester) wakeQueue() {
	for c.queue.Len() > 0 && c.req.Available() > 0 {
		p := c.queue.Pop()
		if p.w.Done() {
			continue // out of time; its caller is about to notice
		}
		err := c.req.Begin(&p.rc)
		p.active = err == nil
		p.w.Complete(err)
	}
}
