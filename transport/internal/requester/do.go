package requester

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/rpc"
)

// Do implements [rpc.Caller]. A call passes through what follows here, in this order: it is checked and described (prepare,
// in call.go), gets its XID, its plan and a credit, or waits for one (begin, waitCredit), its memory is registered and its
// Send posted (send), its caller waits (wait), and finish takes the reply. Until send has posted it, giveUp ends it; after
// that its caller can only leave it (abandon): then whoever brings its end, Receive or Ended, releases its memory.
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
	xid := p.rc.XID // p may belong to somebody else when the call has ended
	if err == nil && queued {
		c.greet(call)
		err = c.waitCredit(ctx, p)
	}
	if err == nil {
		err = c.send(p, call)
	}
	if err != nil {
		err = c.giveUp(p, err)
	} else if err = c.wait(ctx, p); err != nil && !c.answered(ctx, p) {
		err = c.abandon(p, err)
	} else if err = c.finish(p, reply); err == nil {
		err = TakeItem(reply, call, c.cfg.Binding)
	}
	if err != nil {
		c.ctr.Errors.Add(1)
	}
	if t := c.cfg.Trace; t != nil && t.Ended != nil {
		t.Ended(xid, err)
	}
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

// nullProc is the procedure of every program that does nothing (RFC 5531 Section 12.1).
const nullProc = 0

// errGreeted: the grant is known, or about to be.
var errGreeted = errors.New("transport: the server was asked how many calls it takes")

// greet sends a NULL call ahead of the first others. There is one credit until a reply comes (RFC 8166 Section 3.3.3): a
// call that takes long, or whose handler never returns, would hold up all others. Any reply brings the grant, also a
// refusal, so nobody waits for this one but the calls in the queue. Not backward: those calls have callers that know what
// they ask for.
func (c *Requester) greet(call *rpc.Call) {
	unknown := func() error { // with c.mu held
		if c.granted || c.err != nil || c.req.Available() == 0 { // or a call is out that will bring it
			return errGreeted
		}
		return nil
	}
	c.mu.Lock()
	err := unknown()
	c.mu.Unlock()
	if err != nil {
		return
	}
	null := rpc.Call{Prog: call.Prog, Vers: call.Vers, Proc: nullProc}
	p := c.newCall()
	p.prepare(c, &null)
	err = func() error { // past the calls in the queue, which wait for its reply
		c.mu.Lock()
		defer c.mu.Unlock()
		if err := unknown(); err != nil {
			return err // another call was quicker
		}
		c.number(p, &null)
		if err := c.req.Plan(&p.rc); err != nil {
			return err
		}
		if err := c.req.Begin(&p.rc); err != nil {
			return err
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
	traceSending(c.cfg.Trace, &p.rc, size) // before Post, in which the reply may come already
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
	if err := c.checkReply(p); err != nil {
		err = c.refusal(p, err)
		c.giveBack(p)
		return err
	}
	// The result moves to the caller's reply, with its memory: giveBack leaves that alone.
	res := &p.rc.Result
	reply.Header, reply.Results, reply.Placed = res.RPC, res.Results, res.Placed
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
	c.ctr.Replies.Add(1)
	if p.rc.Plan != (rpcrdma.Plan{}) {
		moved := res.ReplyLen
		for _, n := range p.rc.Lens {
			moved += n
		}
		c.ctr.Written.Add(uint64(moved))
		pulled := p.rc.Plan.Stream // the server has answered, so it has read
		for i := range p.rc.Message.Items {
			if i == 0 && p.rc.Plan.Arg || p.rc.Plan.More.Has(i) {
				pulled += len(p.rc.Message.Items[i].Data)
			}
		}
		c.ctr.Read.Add(uint64(pulled))
	}
	c.giveBack(p)
	return nil
}

// checkReply returns the verdict on the reply to p, which now only its caller knows, and the tick if p has a deadline.
func (c *Requester) checkReply(p *outstanding) error {
	if p.deadline.IsZero() && !p.rc.Result.Long {
		return p.rc.Result.Err
	}
	var long []byte
	if p.reply != nil {
		long = p.reply.Data
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unwatch(p)
	return c.req.CheckReply(&p.rc, long) // a long reply is looked at only now, when the server can no longer write it
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

// Err returns why the connection ended, for a call that noticed it halfway.
func (c *Requester) Err() error {
	if err := c.conn.Err(); err != nil {
		return err
	}
	return verbs.ErrClosed
}

// callErr converts an error to one that Do promises.
func (c *Requester) callErr(err error) error {
	if e, ok := err.(*rpc.RPCError); ok { //nolint:errorlint // made here, not wrapped
		return e
	}
	return rpc.AsOpError(rpc.OpCall, c.addr, err)
}

// traceSending traces a call that is about to be posted, and its memory.
func traceSending(t *rpc.Trace, rc *rpcrdma.Call, octets int) {
	if t == nil {
		return
	}
	if f := t.Registered; f != nil {
		for kind, chunk := range [...]chunks.WriteChunk{rc.Memory.Arg, rc.Memory.Stream, rc.Memory.Sink, rc.Memory.Reply} {
			if asked := [...]bool{rc.Plan.Arg, rc.Plan.Stream > 0, rc.Plan.Sink, rc.Plan.Reply > 0}; asked[kind] {
				f(rc.XID, rpc.ChunkKind(kind), int(chunk.Room()))
			}
		}
	}
	if t.Sent != nil {
		t.Sent(rc.XID, rc.Plan.Form, octets)
	}
}
