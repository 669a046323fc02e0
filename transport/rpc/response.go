package rpc

import (
	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/xdr"
)

// Response collects the reply to one call. It is valid until ServeRPC returns.
type Response struct {
	// Stat is the accept status; Success is the zero value. Results are sent only with Success.
	Stat xdr.AcceptStat
	// Low and High are the versions served, for ProgMismatch.
	Low, High uint32
	// Verf is the verifier; AUTH_NONE is the zero value.
	Verf xdr.Auth
	// Results is where the handler appends the XDR results. It starts empty with
	// some capacity.
	Results []byte

	// Lent is for transports: what AppendItem, Buffer and OnSent have noted.
	Lent memory.Lent

	denied   bool
	dropped  bool
	refused  bool // the reply is refusal, perhaps before a handler has seen the call
	refusal  xdr.ReplyHeader
	authStat xdr.AuthStat
}

// Deny answers MSG_DENIED with AUTH_ERROR (RFC 5531 Section 9). Results are not
// sent.
func (r *Response) Deny(stat xdr.AuthStat) {
	r.denied, r.authStat = true, stat
}

// Drop leaves the call without a reply. If it must not run twice, it may come again, and is then a new one. A client
// waits for its reply as long as the connection lives.
func (r *Response) Drop() { r.dropped = true }

// Pass answers req with the reply that another server has given to the same call, of any status. What of it b lets travel
// in chunks is not copied, and nothing under RPCSEC_GSS. Pass takes reply; if its Item is in the Sink of the call, that
// must last as AppendItem says.
func (r *Response) Pass(req *Request, reply *Reply, b chunks.Binding) {
	if reply.Lent != nil {
		r.Lent.Add(reply.Lent)
		reply.Lent = nil
	}
	h := &reply.Header
	if h.Denied {
		r.Refuse(*h)
		return
	}
	r.Stat, r.Low, r.High, r.Verf = h.Accept, h.Low, h.High, h.Verf
	res, from := reply.Results, 0
	add := func(pos int, data []byte) {
		r.Results = append(r.Results, res[from:pos]...)
		r.Lent.Items = append(r.Lent.Items, chunks.Item{Pos: len(r.Results), Data: data})
		from = pos
	}
	switch {
	case h.Accept != xdr.Success:
	case req.Cred.Protected(): // nobody can look into them, and none may be reduced: so the item is all of them
		add(0, res)
		from = len(res)
	case reply.Item != nil:
		if pos, _, ok := b.FindResult(req.Prog, req.Vers, req.Proc, res); ok { // else they are left as they came
			add(pos, reply.Item)
		}
	default:
		for _, it := range chunks.EligibleResults(b, req.Prog, req.Vers, req.Proc, res, nil) {
			add(it.Pos, it.Data)
			from += len(it.Data) + xdr.Pad(len(it.Data))
		}
	}
	r.Results = append(r.Results, res[from:]...)
}

// ProgMismatch answers PROG_MISMATCH with the lowest and highest version served.
func (r *Response) ProgMismatch(low, high uint32) {
	r.Stat, r.Low, r.High = xdr.ProgMismatch, low, high
}

// AppendItem appends the count word of an opaque to Results, and marks data as its octets. It is
// the reducible result, if it is eligible. Do not append the pad. More Results may follow. AppendItem
// borrows data until the reply was sent, so data should come from Buffer, or never change.
func (r *Response) AppendItem(data []byte) {
	r.Results = xdr.AppendUint32(r.Results, uint32(len(data)))
	r.Lent.Items = append(r.Lent.Items, chunks.Item{Pos: len(r.Results), Data: data})
}

// Buffer returns n zeros in pooled memory for a result. They are lent until the reply was sent. A handler
// that uses its own memory learns from [Response.OnSent] when that is free again.
func (r *Response) Buffer(n int) []byte {
	b := r.Scratch(n)
	clear(b)
	return b
}

// Scratch is Buffer with octets of other clients instead of zeros, which saves the time to clear them. The
// handler must write each octet that it appends: what it leaves is sent as it is (RFC 5042 Section
// 6.3.2).
func (r *Response) Scratch(n int) []byte {
	b := memory.Shared.Get(n)
	r.Lent.Add(b)
	return b.Data[:n]
}

// OnSent sets a function that is called once, when the data of AppendItem are no longer used, even if the
// connection has failed. The function must not block.
func (r *Response) OnSent(free func()) { r.Lent.Sent = free }

// resultsCap is the room a pooled Response keeps for results.
const resultsCap = 1024

// maxKeptResults is the largest Results memory that stays with a pooled Response.
const maxKeptResults = 64 << 10

// Reset makes r empty for the next call. What the last one has borrowed must have been released.
func (r *Response) Reset() {
	r.Results = r.Results[:0] // one large reply must not stay with every Response that is pooled
	if cap(r.Results) > maxKeptResults || cap(r.Results) == 0 {
		r.Results = make([]byte, 0, resultsCap)
	}
	r.Verf = xdr.Auth{}
	r.Stat, r.Low, r.High = xdr.Success, 0, 0
	r.denied, r.dropped, r.authStat = false, false, 0
	if r.refused {
		r.refused, r.refusal = false, xdr.ReplyHeader{}
	}
}

// Refuse replies h, whatever a handler would say: one that has not seen the call does not.
func (r *Response) Refuse(h xdr.ReplyHeader) { r.refusal, r.refused = h, true }

// Dropped reports whether there is no reply.
func (r *Response) Dropped() bool { return r.dropped }

// Refused reports whether the call was refused.
func (r *Response) Refused() bool { return r.refused }

// Fail drops the results and sets the status.
func (r *Response) Fail(stat xdr.AcceptStat) {
	r.denied, r.Stat = false, stat
	// What was lent stays so until the reply was sent, as if it were in it.
	r.Results, r.Lent.Items = r.Results[:0], r.Lent.Items[:0]
}

// HasResults reports whether anything follows the reply header.
func (r *Response) HasResults() bool {
	return !r.denied && !r.refused && r.Stat == xdr.Success
}

// Header builds the RPC reply header.
func (r *Response) Header(xid uint32) xdr.ReplyHeader {
	if r.refused {
		h := r.refusal
		h.XID = xid
		return h
	}
	h := xdr.ReplyHeader{XID: xid, Verf: r.Verf, Accept: r.Stat, Low: r.Low, High: r.High}
	if r.denied { // then nothing else of the reply is sent
		h.Denied, h.Reject, h.AuthStat = true, xdr.AuthError, r.authStat
	}
	return h
}

// Size returns the octets of the results with all items and pads in place.
func (r *Response) Size() int {
	if !r.HasResults() {
		return 0
	}
	n := len(r.Results)
	for _, it := range r.Lent.Items {
		n += len(it.Data) + xdr.Pad(len(it.Data))
	}
	return n
}

// AppendResults appends the results with all items and pads in place.
func (r *Response) AppendResults(b []byte) []byte {
	if !r.HasResults() {
		return b
	}
	from := 0
	for _, it := range r.Lent.Items {
		b = append(b, r.Results[from:it.Pos]...)
		b = append(b, it.Data...)
		b = xdr.AppendPad(b, len(it.Data))
		from = it.Pos
	}
	return append(b, r.Results[from:]...)
}

// AppendReply appends to b the reply message to call xid as it would travel without chunks: header,
// results, all items and their pads. It copies everything. It is for handlers that keep their replies.
func (r *Response) AppendReply(b []byte, xid uint32) []byte {
	h := r.Header(xid)
	return r.AppendResults(xdr.AppendReply(b, &h))
}

// ReplySize returns how many octets AppendReply appends.
func (r *Response) ReplySize() int {
	h := r.Header(0)
	return h.Size() + r.Size()
}
