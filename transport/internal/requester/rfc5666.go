package requester

import (
	"context"
	"fmt"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/rpc"
	"go.uber.org/zap"
)

// replyPull reads a reply that the server exposes (RFC 5666 Section 3.5). It owns its memory, so that the
// engine may use that longer than the call lives.
type replyPull struct {
	c    *Requester
	p    *outstanding
	xid  uint32
	buf  *memory.Buffer
	n    int // octets of the reply
	sink region.Region
	wrs  []verbs.WR
}

// readsReply reports whether p was answered with a read list that must be pulled. The caller holds c.mu.
func (p *outstanding) readsReply() bool { return p.rc.Result.Read && p.rc.Result.Err == nil }

// beginPull prepares the pull of p's reply. If nobody waits for it, p is answered, and beginPull
// returns nil. The caller holds c.mu, so that nobody drops p meanwhile.
func (c *Requester) beginPull(p *outstanding) *replyPull {
	if p.left {
		_ = c.req.Pulled(&p.rc, nil) // nobody looks at the result
		return nil
	}
	l := &replyPull{c: c, p: p, xid: p.rc.XID, n: p.rc.Layout.Total}
	l.buf = memory.Shared.Get(l.n)
	p.rc.Layout.Place(l.buf.Data, p.rc.Inline)
	for i := range p.rc.Layout.Pulls {
		q := &p.rc.Layout.Pulls[i]
		l.wrs = append(l.wrs, verbs.WR{
			Op: verbs.OpReadRequest, STag: memory.STag(q.Handle), TO: q.Offset, SinkTO: uint64(q.Dst), Len: q.Length,
		})
	}
	p.pull = l
	return l
}

// start posts the Reads. It may run in an upcall.
func (l *replyPull) start() {
	if len(l.wrs) == 0 { // the chunks are empty
		l.done(true)
		return
	}
	sink, err := l.c.conn.Register(l.buf.Data[:l.n], region.ReadSink)
	if err == nil {
		l.sink = sink
		l.c.ctr.Registered.Add(1)
		for i := range l.wrs {
			l.wrs[i].Sink = sink.STag()
		}
		l.wrs[len(l.wrs)-1].Done = l
		err = l.c.conn.Post(l.wrs)
	}
	if err != nil {
		l.c.cfg.Logger.Debug("transport: reply not read", zap.Uint32("rpcordma.xid", l.xid), zap.Error(err))
		l.settle(false)
	}
}

// Complete is called when the last Read, and so all Reads, have ended. If the connection has ended,
// HandleClose tells its calls.
func (l *replyPull) Complete(err error) { l.settle(err == nil) }

// settle takes the memory back from the engine. It must not wait for the engine here.
func (l *replyPull) settle(read bool) {
	if l.sink.Invalidate(memory.NoWait) == nil {
		l.done(read)
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), l.c.cfg.CloseTimeout)
		defer cancel()
		if err := l.sink.Invalidate(ctx); err != nil {
			l.c.conn.Abort(err)
			l.buf.Abandon()
			l.buf = nil
		}
		l.done(read && l.buf != nil)
	}()
}

// done completes the call, if the connection still has it, and sends what is due.
func (l *replyPull) done(read bool) {
	c, p := l.c, l.p
	var left bool
	c.mu.Lock()
	mine := c.req.Lookup(l.xid) == &p.rc && p.pull == l
	if mine && (read || c.conn.Err() == nil) { // otherwise HandleClose tells it
		p.pull = nil
		if read {
			_ = c.req.Pulled(&p.rc, l.buf.Data) // CheckReply returns it
			c.ctr.ReplyRead.Add(uint64(l.n))
			p.pulled, l.buf = l.buf, nil
		} else {
			_ = c.req.Pulled(&p.rc, nil)
		}
		left = p.answered()
		c.wakeQueue()
	}
	c.mu.Unlock()
	if l.buf != nil {
		l.buf.Release()
	}
	c.sendDones()
	if left {
		c.reap(p)
	}
}

// answered completes a call that is no longer outstanding, and reports whether its caller has left.
// If not, p belongs to its caller from now on. A reply may be here before the last octet of its call
// was written; then bodyWritten completes the call. The caller of answered holds c.mu.
func (p *outstanding) answered() (left bool) {
	p.active, left = false, p.left
	if p.writing != nil {
		p.early = true
		return false
	}
	if !p.w.Done() {
		p.w.Complete(nil)
	}
	return left
}

// sendDones sends the RDMA_DONEs for which there are credits.
func (c *Requester) sendDones() {
	for {
		c.mu.Lock()
		if c.req == nil || c.req.DonesDue() == 0 || c.err != nil {
			c.mu.Unlock()
			return
		}
		done, ok := c.req.AppendDone(nil)
		c.mu.Unlock()
		if !ok {
			return
		}
		c.ctr.Dones.Add(1)
		c.ctr.Inline.Add(uint64(len(done)))
		if err := c.conn.Post([]verbs.WR{{Op: verbs.OpSend, Head: done}}); err != nil {
			c.conn.Abort(err) // the server waits for the RDMA_DONE
			return
		}
	}
}

// Configure makes the first call of a connection with profile rfc5666: the Connection Configuration
// Protocol (RFC 5666 Section 6). A server need not have it. agreed is the size of Sends that was
// agreed by RFC 8797, 0 for none.
func (c *Requester) Configure(ctx context.Context, agreed int) error {
	state := c.conn.ConnectionState()
	args := rpcrdma.ConfigArgs{
		MaxCall: uint32(c.cfg.InlineSend), MaxReply: uint32(c.cfg.InlineRecv), MaxRead: uint32(state.IRD),
	}
	call := rpc.Call{
		Prog: rpcrdma.ConfigProgram, Vers: rpcrdma.ConfigVersion, Proc: rpcrdma.ConfigProc,
		Cred: c.cfg.ConfigCred, Args: args.Append(nil),
	}
	var r rpc.Reply
	defer r.Release()
	err := c.Do(ctx, &call, &r)
	if _, refused := err.(*rpc.RPCError); err != nil && !refused { //nolint:errorlint // Do does not wrap it
		return err
	}
	if err == nil {
		err = r.Header.Err()
	}
	var got rpcrdma.ConfigReply
	if err == nil {
		got, err = rpcrdma.ParseConfigReply(r.Results)
	}
	if err != nil {
		c.cfg.Logger.Debug("transport: no connection configuration", zap.Error(err))
		return nil
	}
	c.apply(got, agreed)
	return nil
}

// apply applies what the server has announced.
func (c *Requester) apply(got rpcrdma.ConfigReply, agreed int) {
	if got.MaxRead > 0 {
		c.conn.LimitORD(int(min(got.MaxRead, 1<<14)))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.req.Configure(func(rc *rpcrdma.RequesterConfig) {
		rc.SendSize = rpcrdma.ConfigInline(c.cfg.InlineSend, got.MaxCall, agreed)
		rc.Reads = rc.Reads && got.MaxRead > 0
		if rpcrdma.PadsTo(got.Align) {
			rc.Align = int(got.Align)
		}
		c.anyItem = c.anyItem || rpcrdma.PadsTo(got.Align)
	})
}

// checkSinks refuses a call with room for results of which none may be placed there: the caller would wait in vain
// for octets in it. Where nothing at all is reduced (mayReduce), results come inline, as Call.Sink says.
func (c *Requester) checkSinks(call *rpc.Call) error {
	if len(call.Sink)+len(call.MoreSinks) == 0 || call.Cred.Protected() || c.receives != nil {
		return nil
	}
	if _, result := c.mayReduce(call); result {
		return nil
	}
	return &rpc.RPCError{Reason: rpc.ReasonBadCall, Err: fmt.Errorf("call with a Sink: %w", &rpcrdma.BindingError{Prog: call.Prog, Vers: call.Vers, Proc: call.Proc})}
}

// mayReduce reports whether the argument and the result of a call may travel in chunks.
//
// Choice: items that no binding names are reduced only if the server is known to follow RFC 5666: it has
// announced an alignment, or Config.PeerAlign is set. Other servers refuse them.
func (c *Requester) mayReduce(call *rpc.Call) (arg, result bool) {
	if call.Cred.Protected() || c.receives != nil { // RFC 8166 Section 8.2.2.3: nothing is reduced
		return false, false
	}
	if c.anyItem && !chunks.Covers(c.cfg.Binding, call.Prog, call.Vers) {
		return true, true
	}
	return c.cfg.Binding.Eligible(call.Prog, call.Vers, call.Proc)
}
