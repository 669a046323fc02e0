package transport

import (
	"bytes"
	"context"

	"github.com/stag-rdma/stag/xdr"
)

// execute runs a call, or answers it with the reply it had when it came before.
func (s *Server) execute(ctx context.Context, req *Request, resp *Response) {
	if resp.refused || !s.dups.covers(req) {
		run(ctx, s.Handler, &s.ctr, s.cfg.Logger, req, resp)
	} else {
		s.executeOnce(ctx, req, resp)
	}
}

// executeOnce is execute for a call that must run once. It does so in the server's context:
// the end of its connection must not cut it short, as its reply is for the next one.
func (s *Server) executeOnce(ctx context.Context, req *Request, resp *Response) {
	e, old := s.dups.begin(ctx, req)
	if old != nil {
		old.restore(resp)
		return
	}
	if e == nil { // the connection has ended: nobody will read this
		resp.fail(xdr.SystemErr)
		return
	}
	var reply *savedReply
	defer func() { s.dups.end(e, reply) }()
	if s.ctx.Err() != nil { // closed, and what has run then was forgotten: this may be the same
		resp.fail(xdr.SystemErr)
		return
	}
	run(s.ctx, s.Handler, &s.ctr, s.cfg.Logger, req, resp)
	if s.ctx.Err() == nil && !req.pullFailed() { // else the handler has given up halfway
		reply = save(resp)
	}
}

// savedReply is the reply to a call as the handler made it, before it took any form:
// it is formed anew for the chunks that the next transmission offers. It never changes.
type savedReply struct {
	stat      xdr.AcceptStat
	low, high uint32
	verf      xdr.Auth
	denied    bool
	authStat  xdr.AuthStat
	results   []byte
	items     []item
	record    []byte // instead, behind a Listener: the whole reply
}

// savedOverhead is about what a reply costs besides its octets: the entry, its places in
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

// restore makes r the reply. The items' data are lent: they outlive the reply.
func (v *savedReply) restore(r *Response) {
	r.Stat, r.Low, r.High, r.Verf = v.stat, v.low, v.high, v.verf
	r.denied, r.authStat = v.denied, v.authStat
	r.Results = append(r.Results[:0], v.results...)
	r.items = append(r.items[:0], v.items...)
}
