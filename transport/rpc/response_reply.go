package rpc

import "github.com/stag-rdma/stag/xdr"

// resultsCap is the room a pooled Response keeps for results.
const resultsCap = 1024

// maxKeptResults is the largest Results memory that stays with a pooled Response.
const maxKeptResults = 64 << 10

// Reset makes r empty for the next call. What the last one has borrowed must have been released.
func (r *Response) Reset() {
	r.Results = r.Results[:0]
	if cap(r.Results) > maxKeptResults || cap(r.Results) == 0 {
		r.Results = make([]byte, 0, resultsCap)
	}
	r.Verf = xdr.Auth{}
	r.Stat, r.Low, r.High = xdr.Success, 0, 0
	r.denied, r.authStat = false, 0
	if r.refused {
		r.refused, r.refusal = false, xdr.ReplyHeader{}
	}
}

// Refuse replies h, whatever the handler would say: it does not see the call.
func (r *Response) Refuse(h xdr.ReplyHeader) { r.refusal, r.refused = h, true }

// Refused reports whether the call was refused.
func (r *Response) Refused() bool { return r.refused }

// Fail drops the results and sets the status.
func (r *Response) Fail(stat xdr.AcceptStat) {
	r.denied, r.Stat = false, stat
	r.Results, r.Lent.Items = r.Results[:0], r.Lent.Items[:0]
}

// HasResults reports whether anything follows the reply header.
func (r *Response) HasResults() bool {
	return !r.denied && !r.refused && r.Stat == xdr.Success
}

// Header builds the RPC reply header.
func (r *Response) Header(xid uint32) xdr.ReplyHeader {
	if r.refused {
		return r.refusal
	}
	h := xdr.ReplyHeader{XID: xid, Verf: r.Verf, Accept: r.Stat, Low: r.Low, High: r.High}
	if r.denied {
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
