package requester

import (
	"context"
	"errors"
	"fmt"

	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/rpc"
)

// finish takes the reply of an answered call. It revokes the memory before anybody looks at it.
func (c *Requester) finish(p *outstanding, reply *rpc.Reply) error {
	if p.lends {
		if err := c.invalidate(p); err != nil {
			// RFC 8166 Section 4.5.4: a call must not complete on a live connection while the
			// peer can still reach its memory.
			c.conn.Abort(err)
			c.giveBack(p)
			return rpc.AsOpError(rpc.OpCall, c.addr, err)
		}
	}
	err := c.checkReply(p)
	if err == nil {
		p.fill(reply)
		c.count(p)
	}
	if err != nil {
		err = c.refusal(p, err)
	}
	if p.keeps() {
		c.giveBack(p)
	} else {
		c.recycle(p)
	}
	return err
}

// refusal converts the machine's verdict on the reply to p to an error.
func (c *Requester) refusal(p *outstanding, err error) error {
	rc := &p.rc
	e := &rpc.RPCError{XID: rc.XID, Reason: rpc.ReasonBadReply, Err: err}
	re, ok := errors.AsType[*rpcrdma.RemoteError](err)
	if !ok {
		return e
	}
	e.Reason, e.Low, e.High, e.Err = rpc.ReasonChunk, re.Low, re.High, nil
	if re.Code == rpcrdma.ErrVers {
		e.Reason = rpc.ReasonVersion
		return e
	}
	// ERR_CHUNK does not say what was wrong: name what is possible.
	n := rc.Sink + rc.Plan.Reply
	for _, s := range rc.MoreSinks {
		n += s
	}
	if n == 0 {
		n = c.recvSize
	}
	e.Err = &rpc.RoomError{Room: n}
	if rc.Plan.Arg || rc.Plan.Sink || rc.Plan.More != 0 {
		e.Err = fmt.Errorf("%w; or at the server %w", e.Err, &rpcrdma.BindingError{Prog: rc.Prog, Vers: rc.Vers, Proc: rc.Proc})
	}
	return e
}

// checkReply returns the verdict on the reply to p, which now only its caller knows, and the tick
// if p has a deadline.
func (c *Requester) checkReply(p *outstanding) error {
	if p.deadline.IsZero() && !p.rc.Result.Long {
		return p.rc.Result.Err
	}
	return c.checkLate(p)
}

// checkLate is checkReply under the lock.
func (c *Requester) checkLate(p *outstanding) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unwatch(p)
	return c.req.CheckReply(&p.rc, p.replyMemory())
}

// invalidate revokes the call's memory. If the engine still uses it, invalidate waits for
// Config.CloseTimeout at most.
func (c *Requester) invalidate(p *outstanding) error {
	if !p.lends {
		return nil
	}
	if p.takeBack(memory.NoWait, c.ctr) == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.CloseTimeout)
	defer cancel()
	return p.takeBack(ctx, c.ctr)
}

// giveBack ends a call's use of memory, so that it can be reused. The peer was never told about the
// memory, or has answered, or is gone.
func (c *Requester) giveBack(p *outstanding) {
	if err := c.invalidate(p); err != nil {
		c.conn.Abort(err)
		p.abandon() // pinned memory is not reused
		return
	}
	p.drop()
	c.recycle(p)
}

// fill moves the result and its memory to the caller's reply.
func (p *outstanding) fill(reply *rpc.Reply) {
	res := &p.rc.Result
	reply.Header = res.RPC
	reply.Results, reply.Placed = res.Results, res.Placed
	if res.Placed {
		reply.Lens = append(reply.Lens[:0], p.rc.Lens...)
	}
	switch {
	case res.Read:
		reply.Lent, p.pulled = p.pulled, nil
	case res.Long:
		reply.Lent, p.reply = p.reply, nil
	default:
		reply.Lent, p.in = p.in, nil
	}
}

// count adds an answered call to the statistics.
func (c *Requester) count(p *outstanding) {
	c.ctr.Replies.Add(1)
	if p.rc.Plan == (rpcrdma.Plan{}) {
		return
	}
	res := &p.rc.Result
	moved := res.ReplyLen
	for _, n := range p.rc.Lens {
		moved += n
	}
	c.ctr.Written.Add(uint64(moved))
	pulled := p.rc.Plan.Stream
	for i := range p.rc.Message.Items {
		if i == 0 && p.rc.Plan.Arg || p.rc.Plan.More.Has(i) {
			pulled += len(p.rc.Message.Items[i].Data)
		}
	}
	c.ctr.Read.Add(uint64(pulled)) // it has answered, so it has read
}

// replyMemory returns the memory of a long reply.
func (p *outstanding) replyMemory() []byte {
	if p.reply == nil {
		return nil
	}
	return p.reply.Data
}
