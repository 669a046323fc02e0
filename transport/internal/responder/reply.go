package responder

import (
	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

// Reply sends x.resp as the reply to x.req.
func (rc *Responder) Reply(x *Call) {
	h := x.Resp.Header(x.Req.XID)
	x.rpc = xdr.AppendReply(x.rpc[:0], &h)
	x.msg = chunks.Message{}
	x.msg.Head = x.rpc
	if x.Resp.HasResults() {
		x.msg.Body = x.Resp.Results
		if rc.reducible(x) {
			x.setItems()
		} else {
			x.flatten()
		}
	}
	rc.sendReply(x)
}

// reducible reports whether the items may be sent by write chunks. If the client offered none, the
// answer does not matter, and nothing is copied.
func (rc *Responder) reducible(x *Call) bool {
	if len(x.Resp.Lent.Items) == 0 || len(x.In.Header.Write) == 0 && !rc.profile.withholds() {
		return true
	}
	if x.Req.Cred.Protected() {
		return false
	}
	if rc.profile.reduces(x.Req.Prog, x.Req.Vers) {
		return true
	}
	_, ok := rc.cfg.Binding.Eligible(x.Req.Prog, x.Req.Vers, x.Req.Proc)
	return ok || len(x.In.Header.Write) == 0
}

// setItems describes the response's items by their offsets in the unreduced reply.
func (x *Call) setItems() {
	before := len(x.rpc)
	x.item = x.item[:0]
	for _, it := range x.Resp.Lent.Items {
		x.item = append(x.item, chunks.Item{Pos: before + it.Pos, Data: it.Data})
		before += len(it.Data) + xdr.Pad(len(it.Data))
	}
	x.msg.Items = x.item
}

// flatten copies the items and the other results into one buffer.
func (x *Call) flatten() {
	b := x.Resp.Scratch(x.Resp.Size())
	x.msg.Body = x.Resp.AppendResults(b[:0])
}

// sendReply forms x.msg and sends it.
func (rc *Responder) sendReply(x *Call) {
	rc.mu.Lock()
	rc.limitGrant(x)
	rc.resp.Reply(x.head[:0], &x.In, &x.msg, &x.out)
	rc.mu.Unlock()
	x.head = x.out.Head
	if x.out.Err != nil {
		rc.noFit(x)
	}
	rc.profile.reply(x)
}

// noFit counts a reply that is replaced by an ERR_CHUNK.
func (rc *Responder) noFit(x *Call) {
	x.head = x.out.Head
	rc.Ctr.Errors.Add(1)
	if len(x.Resp.Lent.Items) > 0 && !rc.reducible(x) && !x.Req.Cred.Protected() { // a write chunk was there for it
		rc.wantsBinding(x.Req.XID, &rpcrdma.BindingError{Prog: x.Req.Prog, Vers: x.Req.Vers, Proc: x.Req.Proc})
	}
	rc.cfg.Logger.Warn("transport: reply does not fit what the client offered",
		zap.Uint32("rpcordma.xid", x.Req.XID), zap.Uint32("rpc.procedure", x.Req.Proc), zap.Error(x.out.Err))
}

// send posts the RDMA Writes of x.out and the Send in x.head, in order, so that the delivery of the
// Send shows that the Writes are placed (RFC 5040 Section 5.5).
func (rc *Responder) send(x *Call, done verbs.Completer) {
	x.wrs = x.wrs[:0]
	borrowed, written := false, 0
	for i := range x.out.Writes {
		w := &x.out.Writes[i]
		wr := x.addWR()
		wr.Op, wr.Body, wr.STag, wr.TO = verbs.OpWrite, w.Data, memory.STag(w.Handle), w.Offset
		borrowed = borrowed || len(w.Data) > verbs.CopyLimit
		written += len(w.Data)
	}
	last := x.addWR()
	last.Op, last.Head = verbs.OpSend, x.head
	if x.out.HasInvalidate {
		last.Op, last.STag = verbs.OpSendInvalidate, memory.STag(x.out.Invalidate)
		rc.Ctr.Invalidated.Add(1)
	}
	if borrowed {
		x.charge(written)
	}
	last.Done = done
	// Counted first: the client may act on the reply before Post returns.
	rc.Ctr.Replies.Add(1)
	if written > 0 {
		rc.Ctr.Written.Add(uint64(written))
	}
	rc.Ctr.Inline.Add(uint64(len(x.head)))
	traceAnswering(rc.cfg.Trace, x.In.Header.XID, len(x.head), written)
	if borrowed && done == nil {
		rc.sendBulk(x)
		return
	}
	err := rc.Conn.Post(x.wrs)
	if err != nil && rc.Conn.Err() == nil {
		rc.Conn.Abort(err) // RFC 8166 Section 4.5.4: no reply can be sent
	}
	switch {
	case done == nil:
		rc.Finish(x)
	case err != nil:
		done.Complete(err)
	}
}

// addWR adds a work request and returns it, to be filled in place, because it is large.
func (x *Call) addWR() *verbs.WR {
	n := len(x.wrs)
	if n == cap(x.wrs) {
		x.wrs = append(x.wrs, verbs.WR{})
	} else {
		x.wrs = x.wrs[:n+1]
		x.wrs[n] = verbs.WR{}
	}
	return &x.wrs[n]
}

// Answer sends a whole reply, which must not change until it was sent.
func (rc *Responder) Answer(x *Call, msg []byte) {
	x.msg = chunks.Message{Body: msg, Whole: true}
	rc.findItems(x, msg)
	rc.sendReply(x)
}

// findItems finds the DDP-eligible results in a reply.
func (rc *Responder) findItems(x *Call, msg []byte) {
	d := xdr.NewDecoder(msg)
	var h xdr.ReplyHeader
	if h.Parse(&d) != nil || h.Err() != nil || x.protected {
		return
	}
	res := d.Rest()
	x.item = chunks.EligibleResults(rc.cfg.Binding, x.Req.Prog, x.Req.Vers, x.Req.Proc, res, x.item[:0])
	for i := range x.item {
		x.item[i].Pos += len(msg) - len(res)
	}
	x.msg.Items = x.item
}
