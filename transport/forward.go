package transport

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/internal/requester"
	"github.com/stag-rdma/stag/transport/internal/stream"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// forwardedCall is a whole call from a record that is passed on. Its eligible argument may be reduced;
// its XID, credential and verifier stay the same.
type forwardedCall struct {
	cc   *CallConn
	rec  *stream.Record // the call
	call rpc.Call
	item int            // octets of the largest eligible result, 0 for none
	sink *memory.Buffer // where that is placed
	hold *callHold      // until the reply has been read
	// refs counts who uses rec and sink: do, and the peer until Call.Free.
	refs atomic.Int32
}

// parse describes the call in o.rec by b.
func (o *forwardedCall) parse(b chunks.Binding) error {
	msg := o.rec.Bytes()
	if _, typ, ok := xdr.PeekXID(msg); !ok || typ != xdr.MsgCall {
		return rpc.ErrNotACall
	}
	d := xdr.NewDecoder(msg)
	var h xdr.CallHeader
	if err := h.Parse(&d); err != nil {
		return err
	}
	args := d.Rest()
	o.call = rpc.Call{
		Prog: h.Prog, Vers: h.Vers, Proc: h.Proc, Cred: h.Cred, Verf: h.Verf, Args: args,
		Free: o.free, Resend: &rpc.Transmission{XID: h.XID},
	}
	if h.Cred.Protected() { // RFC 8166 Section 8.2.2.3: nothing is reduced
		o.call.MaxResults = -1
		return nil
	}
	o.split(b, args)
	o.expect(b, args)
	return nil
}

// split removes the eligible argument from args, if all of it is there.
func (o *forwardedCall) split(b chunks.Binding, args []byte) {
	pos, n, ok := b.FindArg(o.call.Prog, o.call.Vers, o.call.Proc, args)
	if !ok || n == 0 || n > len(args)-pos || xdr.Pad(n) > len(args)-pos-n {
		return
	}
	tail := args[pos+n+xdr.Pad(n):]
	o.call.Item, o.call.ItemPos, o.call.Args = args[pos:pos+n], pos, args[:pos]
	if len(tail) > 0 {
		o.call.Args = append(append(make([]byte, 0, pos+len(tail)), args[:pos]...), tail...)
	}
}

// expect makes room for the largest reply. A program without a binding may answer with as much as
// the connection can carry.
func (o *forwardedCall) expect(b chunks.Binding, args []byte) {
	rest, item, ok := b.MaxResults(o.call.Prog, o.call.Vers, o.call.Proc, args)
	limit := o.cc.c.cfg.MaxPayload - requester.HeadRoom
	if !ok || rest > limit || item > limit-rest {
		o.call.MaxResults = -1
		return
	}
	o.call.MaxResults, o.item = rest, item
}

// replyOctets returns how many octets the reply may take.
func (o *forwardedCall) replyOctets() int {
	if o.call.MaxResults < 0 {
		return o.cc.c.cfg.MaxPayload
	}
	return o.call.MaxResults + o.item
}

// dropped releases what the call has when it is not made.
func (o *forwardedCall) dropped() {
	o.rec.Buf.Release()
	o.hold.release()
}

// do makes the call and queues the reply.
func (o *forwardedCall) do() {
	o.refs.Store(2)
	defer o.release()
	if o.item > 0 {
		o.sink = memory.Shared.Get(o.item)
		clear(o.sink.Data[:o.item]) // the server may write less than it claims: see outcall.register
		o.call.Sink = o.sink.Data[:o.item]
	}
	var reply rpc.Reply
	defer reply.Release()
	err := o.cc.c.Do(context.Background(), &o.call, &reply)
	xid := o.call.Resend.XID
	if _, refused := errors.AsType[*rpc.RPCError](err); refused {
		o.cc.answer(xid, systemErr(xid), o.hold)
		return
	}
	if err != nil {
		o.cc.in.Fail(err)
		o.hold.release()
		return
	}
	o.cc.answer(xid, o.record(&reply), o.hold)
}

// free is Call.Free.
func (o *forwardedCall) free() { o.release() }

// release releases the memory when nobody uses it anymore.
func (o *forwardedCall) release() {
	if o.refs.Add(-1) > 0 {
		return
	}
	o.rec.Buf.Release()
	if o.sink != nil {
		o.sink.Release()
	}
}

// record assembles a reply, with the item in its place.
func (o *forwardedCall) record(r *rpc.Reply) stream.Record {
	res, tail := r.Results, []byte(nil)
	var item []byte
	if r.Item != nil {
		// A count that the binding does not find again leaves the results as they came.
		if pos, _, ok := o.cc.c.cfg.Binding.FindResult(o.call.Prog, o.call.Vers, o.call.Proc, res); ok {
			res, tail, item = res[:pos], res[pos:], r.Item
		}
	}
	n := r.Header.Size() + len(res) + len(item) + xdr.Pad(len(item)) + len(tail)
	rec := stream.Record{Buf: memory.Shared.Get(stream.MarkSize + n), Len: stream.MarkSize + n}
	b := xdr.AppendRecordMark(rec.Buf.Data[:0], n, true)
	b = xdr.AppendReply(b, &r.Header)
	b = append(b, res...)
	b = append(b, item...)
	b = xdr.AppendPad(b, len(item))
	_ = append(b, tail...) // within the buffer
	return rec
}

// systemErr is the record of a reply that only says SYSTEM_ERR.
func systemErr(xid uint32) stream.Record {
	h := xdr.ReplyHeader{XID: xid, Accept: xdr.SystemErr}
	rec := stream.Record{Buf: memory.Shared.Get(minInline), Len: stream.MarkSize + h.Size()}
	xdr.AppendReply(xdr.AppendRecordMark(rec.Buf.Data[:0], h.Size(), true), &h)
	return rec
}
