package requester

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/rpc"
)

// Do implements [rpc.Caller].
func (c *Requester) Do(ctx context.Context, call *rpc.Call, reply *rpc.Reply) error {
	reply.Release()
	err := Check(ctx, call, c.cfg.MaxPayload)
	if err == nil && !Plain(call) {
		err = c.checkSinks(call)
	}
	if err != nil {
		c.ctr.Errors.Add(1)
		Freed(call)
		return err
	}
	if most := c.cfg.MaxPayload; len(call.Sink) > most {
		// More cannot come, and a header that offers and returns it would be refused for its sum.
		cut := *call
		cut.Sink = call.Sink[:most:most]
		call = &cut
	}
	defer c.broken()
	p := c.newCall()
	p.prepare(c, call)
	queued, err := c.begin(p, call)
	xid := p.rc.XID
	if err != nil {
		err = c.giveUp(p, err)
	} else {
		err = c.do(ctx, p, call, reply, queued)
	}
	if err != nil {
		c.ctr.Errors.Add(1)
	}
	traceEnded(c.cfg.Trace, xid, err)
	return err
}

// broken ends the connection after a panic, of the binding, trace or context of the caller, who gets it: what the call has
// registered, or left half done, ends too.
func (c *Requester) broken() {
	if v := recover(); v != nil {
		c.ctr.Panics.Add(1)
		c.conn.Abort(fmt.Errorf("%w: %v\n%s", verbs.ErrPanic, v, debug.Stack()))
		panic(v)
	}
}

// nullProc is the procedure of every program that does nothing (RFC 5531 Section 12.1).
const nullProc = 0

// greet sends a NULL call ahead of the first others. There is one credit until a reply comes (RFC 8166 Section 3.3.3): a
// call that takes long, or whose handler never returns, would hold up all others. Any reply brings the grant, also a
// refusal, so nobody waits for this one but the calls in the queue. Not backward: those calls have callers that know what
// they ask for.
func (c *Requester) greet(call *rpc.Call) {
	c.mu.Lock()
	known := c.granted || c.err != nil || c.req.Available() == 0 // or a call is out that will bring it
	c.mu.Unlock()
	if known {
		return
	}
	null := rpc.Call{Prog: call.Prog, Vers: call.Vers, Proc: nullProc}
	p := c.newCall()
	p.prepare(c, &null)
	err := func() error { // past the calls in the queue, which wait for its reply
		c.mu.Lock()
		defer c.mu.Unlock()
		c.number(p, &null)
		if err := c.req.Plan(&p.rc); err != nil {
			return err
		}
		if err := c.req.Begin(&p.rc); err != nil {
			return err // another call was quicker
		}
		p.active = true
		return c.form(p)
	}()
	if err == nil {
		err = c.send(p, &null)
	}
	if err != nil {
		_ = c.giveUp(p, err) // the calls that wait learn it from the connection
		return
	}
	if p.w.Done() && p.w.Err() == nil {
		c.ctr.Replies.Add(1) // it was quick; otherwise Receive counts it
	}
	_ = c.abandon(p, nil) // not before it is sent: the end of the connection gives back what nobody waits for
}

// do runs one call, after begin, to its reply.
func (c *Requester) do(ctx context.Context, p *outstanding, call *rpc.Call, reply *rpc.Reply, queued bool) (err error) {
	if queued {
		c.greet(call)
		err = c.waitCredit(ctx, p)
	}
	if err == nil {
		err = c.send(p, call)
	}
	if err != nil {
		return c.giveUp(p, err)
	}
	if err := c.wait(ctx, p); err != nil && !c.answered(ctx, p) {
		return c.abandon(p, err)
	}
	if err := c.finish(p, reply); err != nil {
		return err
	}
	return TakeItem(reply, call, c.cfg.Binding)
}

// wait waits for the reply to p. If ctx panics, the caller has gone.
func (c *Requester) wait(ctx context.Context, p *outstanding) (err error) {
	over := false
	defer func() {
		if !over {
			_ = c.abandon(p, nil)
		}
	}()
	err = c.conn.Wait(ctx, &p.w)
	over = true
	return err
}

// begin gives a call its XID, plans it, and takes a credit for it or enters it into the queue. A
// call that registers no memory is formed at once.
func (c *Requester) begin(p *outstanding, call *rpc.Call) (queued bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock() // the binding may panic
	c.number(p, call)
	if c.err != nil {
		return false, c.err
	}
	if err := c.req.Plan(&p.rc); err != nil {
		reason := rpc.ReasonBadCall
		if errors.Is(err, rpcrdma.ErrInline) {
			reason = rpc.ReasonBackward
		}
		return false, &rpc.RPCError{XID: p.rc.XID, Reason: reason, Err: err}
	}
	if c.cfg.CallTimeout > 0 {
		c.watch(p, time.Now().Add(c.cfg.CallTimeout))
	}
	if !c.granted && call.Proc != nullProc && call.Prog != rpcrdma.ConfigProgram && c.receives == nil {
		c.queue.Push(&p.place, p) // behind the call of greet
		return true, nil
	}
	if c.queue.Len() == 0 {
		err = c.req.Begin(&p.rc)
	}
	if c.queue.Len() > 0 || errors.Is(err, rpcrdma.ErrNoCredit) {
		c.queue.Push(&p.place, p)
		return true, nil
	}
	if err != nil { // a Resend whose XID an earlier transmission on this connection still has
		return false, &rpc.RPCError{XID: p.rc.XID, Reason: rpc.ReasonBadCall, Err: err}
	}
	if p.active = true; p.rc.Plan == (rpcrdma.Plan{}) {
		err = c.form(p)
	}
	return false, err
}

// form makes the Send. From then on a reply can come, perhaps of a server that has guessed the XID. The caller holds c.mu.
func (c *Requester) form(p *outstanding) (err error) {
	if p.head, p.body, err = c.req.AppendCall(p.head[:0], &p.rc); err != nil {
		return &rpc.RPCError{XID: p.rc.XID, Reason: rpc.ReasonBadCall, Err: err}
	}
	if len(p.body) > 0 {
		p.writing = c
	}
	return nil
}

// prepareSend registers memory and forms the Send.
func (c *Requester) prepareSend(p *outstanding, call *rpc.Call) error {
	err := p.register(c, call)
	switch {
	case errors.Is(err, region.ErrClosed):
		return c.Err()
	case err != nil:
		return &rpc.RPCError{XID: p.rc.XID, Reason: rpc.ReasonBadCall, Err: err}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.form(p)
}

// send posts the call, after registering its memory if necessary. If it fails, nothing was sent.
func (c *Requester) send(p *outstanding, call *rpc.Call) (err error) {
	if len(p.head) == 0 {
		if err = c.prepareSend(p, call); err != nil {
			return err
		}
	}
	size := len(p.head) + len(p.body)
	wr := verbs.WR{Op: verbs.OpSend, Head: p.head, Body: p.body}
	if len(p.body) > 0 {
		if err := c.lendBody(p, call); err != nil {
			return &rpc.RPCError{XID: p.rc.XID, Reason: rpc.ReasonBadCall, Err: err}
		}
		wr.Done = (*bodyWritten)(p)
	}
	call.Resend.Posting(call)
	if c.receives != nil {
		c.receives.ExpectReply()
	}
	c.ctr.Segments.Add(p.rc.Lists())
	traceSending(c.cfg.Trace, &p.rc, size)
	if err = c.conn.Post([]verbs.WR{wr}); err != nil {
		if c.receives != nil {
			c.receives.UnexpectReply()
		}
		c.bodyBack(p)
		return err
	}
	c.ctr.Calls.Add(1)
	c.ctr.Inline.Add(uint64(size))
	return nil
}

// Err returns why the connection ended, for a call that noticed it halfway.
func (c *Requester) Err() error {
	if err := c.conn.Err(); err != nil {
		return err
	}
	return verbs.ErrClosed
}

// answered reports, after a wait that failed, whether p has its reply all the same: results beat
// cancellation. If the connection is over, it waits for the verdict, and for memory that is still being sent.
func (c *Requester) answered(ctx context.Context, p *outstanding) bool {
	if c.conn.Err() != nil {
		select {
		case <-c.over:
		case <-ctx.Done():
		}
		c.awaitBody(ctx, p)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return p.w.Done() && p.w.Err() == nil
}

// giveUp ends a call that was not sent.
func (c *Requester) giveUp(p *outstanding, err error) error {
	c.mu.Lock()
	c.unwatch(p)
	if p.active {
		p.active = false
		c.req.Abort(&p.rc)
	}
	c.wakeQueue()
	c.mu.Unlock()
	c.giveBack(p)
	return c.callErr(err)
}

// abandon ends the wait for a reply. If the call is still outstanding, whoever ends it later releases its
// memory.
func (c *Requester) abandon(p *outstanding, err error) error {
	c.mu.Lock()
	c.unwatch(p)
	p.left = true
	if p.active && !c.req.Cancel(&p.rc) { // its credit is back
		p.active = false
		c.wakeQueue()
	}
	mine := !p.active && p.writing == nil
	if mine && c.err != nil && p.w.Done() && !p.late {
		err = c.err
	}
	c.mu.Unlock()
	if mine {
		c.giveBack(p)
	}
	return c.callErr(err)
}

// callErr converts an error to one that Do promises.
func (c *Requester) callErr(err error) error {
	if e, ok := err.(*rpc.RPCError); ok { //nolint:errorlint // made here, not wrapped
		return e
	}
	return rpc.AsOpError(rpc.OpCall, c.addr, err)
}
