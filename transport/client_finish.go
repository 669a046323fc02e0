package transport

import (
	"context"
	"errors"

	"github.com/stag-rdma/stag/rpcrdma"
)

// finish takes the reply of a call that was answered. Its memory is revoked before
// anybody looks at it.
func (c *Client) finish(p *outcall, reply *Reply) error {
	if p.lends {
		if err := c.invalidate(p); err != nil {
			// RFC 8166 Section 4.5.4: a call whose memory the peer still has must not
			// complete on a live connection.
			c.conn.Abort(err)
			c.giveBack(p)
			return opErr(OpCall, c.addr, err)
		}
	}
	err := c.checkReply(p)
	if err == nil {
		p.fill(reply)
		c.count(p)
	}
	xid := p.rc.XID
	if p.keeps() {
		c.giveBack(p)
	} else {
		c.recycle(p)
	}
	if err != nil {
		err = rpcErr(xid, err)
	}
	return err
}

// checkReply is the verdict on the reply to p, which only its caller knows any more, and
// the tick if it has a deadline.
func (c *Client) checkReply(p *outcall) error {
	if p.deadline.IsZero() && !p.rc.Result.Long {
		return p.rc.Result.Err
	}
	return c.checkLate(p)
}

// checkLate is checkReply under the lock.
func (c *Client) checkLate(p *outcall) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unwatch(p)
	return c.req.CheckReply(&p.rc, p.replyMemory())
}

// invalidate revokes the call's memory. An engine that still uses it is given
// Config.CloseTimeout.
func (c *Client) invalidate(p *outcall) error {
	if !p.lends {
		return nil
	}
	if p.takeBack(cancelled, c.ctr) == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.CloseTimeout)
	defer cancel()
	return p.takeBack(ctx, c.ctr)
}

// cancelled is a context that is over: "try without waiting".
var cancelled = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// giveBack ends a call's use of memory and reuses it. The peer was never told of
// the memory, or has answered, or is gone.
func (c *Client) giveBack(p *outcall) {
	if err := c.invalidate(p); err != nil {
		c.conn.Abort(err)
		p.abandon() // pinned memory is not reused
		return
	}
	p.drop()
	c.recycle(p)
}

// fill moves the result and the memory it lies in to the caller's reply.
func (p *outcall) fill(reply *Reply) {
	res := &p.rc.Result
	reply.Header = res.RPC
	reply.Results, reply.Placed = res.Results, res.Placed
	if res.Placed {
		reply.Lens = append(reply.Lens[:0], p.rc.Lens...)
		reply.ItemLen = reply.Lens[0]
	}
	switch {
	case res.Read:
		reply.buf, p.pulled = p.pulled, nil
	case res.Long:
		reply.buf, p.reply = p.reply, nil
	default:
		reply.buf, p.in = p.in, nil
	}
}

// count adds an answered call to the statistics.
func (c *Client) count(p *outcall) {
	c.ctr.replies.Add(1)
	if p.rc.Plan == (rpcrdma.Plan{}) {
		return
	}
	res := &p.rc.Result
	moved := res.ReplyLen
	for _, n := range p.rc.Lens {
		moved += n
	}
	c.ctr.written.Add(uint64(moved))
	pulled := p.rc.Plan.Stream
	for i := range p.rc.Message.Items {
		if i == 0 && p.rc.Plan.Arg || p.rc.Plan.More.Has(i) {
			pulled += len(p.rc.Message.Items[i].Data)
		}
	}
	c.ctr.read.Add(uint64(pulled)) // it has answered, so it has read
}

// replyMemory returns the memory of a long reply.
func (p *outcall) replyMemory() []byte {
	if p.reply == nil {
		return nil
	}
	return p.reply.data
}

// rpcErr maps the machine's verdict on a reply.
func rpcErr(xid uint32, err error) error {
	e := &RPCError{XID: xid, Reason: ReasonBadReply, Err: err}
	if re, ok := errors.AsType[*rpcrdma.RemoteError](err); ok {
		e.Reason, e.Low, e.High, e.Err = ReasonChunk, re.Low, re.High, nil
		if re.Code == rpcrdma.ErrVers {
			e.Reason = ReasonVersion
		}
	}
	return e
}
