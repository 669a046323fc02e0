package transport

import "github.com/stag-rdma/stag/xdr"

// resultsCap is the room a pooled Response keeps for results.
const resultsCap = 1024

// maxKeptResults is the largest Results memory that stays with a pooled Response.
const maxKeptResults = 64 << 10

// reset makes r empty for the next call.
func (r *Response) reset(p *pool) {
	r.Results, r.items, r.bufs, r.mems = r.Results[:0], r.items[:0], r.bufs[:0], r.mems[:0]
	if cap(r.Results) > maxKeptResults || cap(r.Results) == 0 {
		r.Results = make([]byte, 0, resultsCap)
	}
	r.Verf = xdr.Auth{}
	r.Stat, r.Low, r.High = xdr.Success, 0, 0
	r.denied, r.authStat, r.free, r.pool, r.instead = false, 0, nil, p, 0
	if r.refused {
		r.refused, r.refusal = false, xdr.ReplyHeader{}
	}
}

// fail drops the results and sets the status.
func (r *Response) fail(stat xdr.AcceptStat) {
	r.denied, r.Stat = false, stat
	r.Results, r.items = r.Results[:0], r.items[:0]
}

// sent releases what the reply has borrowed. It must be called once per call.
func (r *Response) sent() {
	for i, b := range r.bufs {
		b.release()
		r.bufs[i] = nil
	}
	r.bufs = r.bufs[:0]
	for i, m := range r.mems {
		m.give()
		r.mems[i] = nil
	}
	r.mems = r.mems[:0]
	clear(r.items)
	r.items = r.items[:0]
	if f := r.free; f != nil {
		r.free = nil
		f()
	}
}

// abandon drops the memory of a reply that an engine may still use: the memory is never reused, and
// OnSent is not called.
func (r *Response) abandon() {
	for i, b := range r.bufs {
		b.abandon()
		r.bufs[i] = nil
	}
	r.bufs, r.free, r.Results = r.bufs[:0], nil, nil
	r.mems = nil // in use for good
}

// hasResults reports whether anything follows the reply header.
func (r *Response) hasResults() bool {
	return !r.denied && !r.refused && r.Stat == xdr.Success
}

// header builds the RPC reply header.
func (r *Response) header(xid uint32) xdr.ReplyHeader {
	if r.refused {
		return r.refusal
	}
	h := xdr.ReplyHeader{XID: xid, Verf: r.Verf, Accept: r.Stat, Low: r.Low, High: r.High}
	if r.denied {
		h.Denied, h.Reject, h.AuthStat = true, xdr.AuthError, r.authStat
	}
	return h
}

// size returns the octets of the results with all items and pads in place.
func (r *Response) size() int {
	if !r.hasResults() {
		return 0
	}
	n := len(r.Results)
	for _, it := range r.items {
		n += len(it.data) + xdr.Pad(len(it.data))
	}
	return n
}

// appendAll appends the results with all items and pads in place.
func (r *Response) appendAll(b []byte) []byte {
	if !r.hasResults() {
		return b
	}
	from := 0
	for _, it := range r.items {
		b = append(b, r.Results[from:it.pos]...)
		b = append(b, it.data...)
		b = xdr.AppendPad(b, len(it.data))
		from = it.pos
	}
	return append(b, r.Results[from:]...)
}
