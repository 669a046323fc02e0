package transport

import (
	"bytes"
	"context"

	"github.com/stag-rdma/stag/xdr"
)

// execute runs a call, or answers a duplicate with the reply to the first one. It returns false if the
// call must not be answered.
func (s *Server) execute(ctx context.Context, h Handler, req *Request, resp *Response, from *origin) bool {
	// h, because what one port refuses, another one may serve.
	changes := !resp.refused && s.dups.changes(req) && NonIdempotent(h, req.Prog, req.Vers, req.Proc)
	switch {
	case changes && s.dups.covers(req):
		return s.executeOnce(ctx, h, req, resp, from)
	case s.isLate(from.hasEnded() || changes && from.late()):
		return false
	}
	run(ctx, h, &s.ctr, s.cfg.Logger, req, resp)
	return true
}

// isLate counts a call that comes too late to be executed.
func (s *Server) isLate(late bool) bool {
	if late {
		s.ctr.late.Add(1)
	}
	return late
}

// executeOnce is execute for a call that must run once. It runs in the server's context: the end of
// the connection must not cut it short, because its reply is for the next connection.
func (s *Server) executeOnce(ctx context.Context, h Handler, req *Request, resp *Response, from *origin) bool {
	e, old := s.dups.begin(ctx, req)
	if old != nil {
		old.restore(resp)
		return true
	}
	if e == nil {
		return false
	}
	var reply *savedReply
	defer func() { s.dups.end(e, reply) }()
	if s.ctx.Err() != nil { // closed: calls that ran then were forgotten, and this may be one of them
		resp.fail(xdr.SystemErr)
		return true
	}
	if s.isLate(from.late()) {
		return false
	}
	run(s.ctx, h, &s.ctr, s.cfg.Logger, req, resp)
	if s.ctx.Err() != nil || req.pullFailed() { // the handler has given up halfway
		return true
	}
	if req.away != nil {
		sum := req.sum()
		switch {
		case sum.Known:
		case req.untouched(): // refused: nothing has run
			return true
		default: // the rest says which call has run; if it cannot be read, no other call gets this reply
			if _, err := req.away.fetch(ctx); err == nil {
				sum = req.sum()
			}
		}
		s.dups.learn(e, sum)
	}
	reply = save(resp)
	return true
}

// savedReply is the reply to a call as the handler has made it, before it is encoded: it is encoded
// again for the chunks that a retransmission offers. It never changes.
type savedReply struct {
	stat      xdr.AcceptStat
	low, high uint32
	verf      xdr.Auth
	denied    bool
	authStat  xdr.AuthStat
	results   []byte
	items     []item
	record    []byte // behind a Listener: the whole reply, instead of the other fields
}

// savedOverhead is about how many octets a reply costs besides its own: the entry, its places in
// the maps, the savedReply.
const savedOverhead = 512

// save copies a reply.
func save(r *Response) *savedReply {
	v := &savedReply{
		stat: r.Stat, low: r.Low, high: r.High,
		verf:   xdr.Auth{Flavor: r.Verf.Flavor, Body: bytes.Clone(r.Verf.Body)},
		denied: r.denied, authStat: r.authStat,
	}
	if !r.hasResults() {
		return v
	}
	v.results = bytes.Clone(r.Results)
	for _, it := range r.items {
		v.items = append(v.items, item{pos: it.pos, data: bytes.Clone(it.data)})
	}
	return v
}

// size returns the memory that v takes, in octets.
func (v *savedReply) size() int64 {
	n := savedOverhead + len(v.verf.Body) + len(v.results) + len(v.record)
	for _, it := range v.items {
		n += len(it.data)
	}
	return int64(n)
}

// restore makes r the reply. It lends the data of the items, which outlive the reply.
func (v *savedReply) restore(r *Response) {
	r.Stat, r.Low, r.High, r.Verf = v.stat, v.low, v.high, v.verf
	r.denied, r.authStat = v.denied, v.authStat
	r.Results = append(r.Results[:0], v.results...)
	r.items = append(r.items[:0], v.items...)
}
