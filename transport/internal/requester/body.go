package requester

import (
	"context"

	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/rpc"
)

// lendBody notes that the engine is about to read p.body.
func (c *Requester) lendBody(p *outstanding, call *rpc.Call) error {
	in := (*memory.Memory)(call.ItemMemory)
	if n := len(call.MoreItems); n > 0 {
		in = (*memory.Memory)(call.MoreItems[n-1].Memory)
	}
	if in == nil {
		return nil
	}
	if err := in.TakePart(p.body); err != nil {
		c.bodyBack(p)
		return err
	}
	p.bodyIn = in
	return nil
}

// bodyBack notes that the engine no longer reads p.body, and reports whether p must be reaped: its caller
// has left, and its reply or the end of the connection came first.
func (c *Requester) bodyBack(p *outstanding) (left bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.writing == nil {
		return false
	}
	if p.writing = nil; p.bodyIn != nil {
		p.bodyIn.Give()
		p.bodyIn = nil
	}
	if p.back != nil {
		close(p.back)
		p.back = nil
	}
	if p.early {
		return p.answered()
	}
	return p.left && !p.active
}

// awaitBody waits until the engine no longer reads the body of a call that the end of the connection has failed: until
// then its caller must neither change that memory nor send it on another connection. The engine lets go of it when it
// has closed the connection.
func (c *Requester) awaitBody(ctx context.Context, p *outstanding) {
	c.mu.Lock()
	if p.writing == nil {
		c.mu.Unlock()
		return
	}
	back := make(chan struct{})
	p.back = back
	c.mu.Unlock()
	select {
	case <-back:
	case <-ctx.Done():
	}
}

// bodyWritten completes the Send of a call that ends with the caller's memory.
type bodyWritten outstanding

// Complete returns that memory, whether it was written or the connection has ended. p may be reused
// as soon as bodyBack has returned: then its caller has gone on.
func (d *bodyWritten) Complete(error) {
	p := (*outstanding)(d)
	if c := p.writing; c.bodyBack(p) {
		c.reap(p)
	}
}
