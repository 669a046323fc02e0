package transport

import (
	"bytes"
	"context"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// execute runs a call, or answers a duplicate with the reply to the first one. It returns false if the
// call must not be answered.
func (s *Server) execute(ctx context.Context, h rpc.Handler, req *rpc.Request, resp *rpc.Response, from *origin) bool {
	// h, because what one port refuses, another one may serve.
	changes := !resp.Refused() && s.dups.changes(req) && rpc.NonIdempotent(h, req.Prog, req.Vers, req.Proc)
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
		s.ctr.Late.Add(1)
	}
	return late
}

// executeOnce is execute for a call that must run once. It runs in the server's context: the end of
// the connection must not cut it short, because its reply is for the next connection.
func (s *Server) executeOnce(ctx context.Context, h rpc.Handler, req *rpc.Request, resp *rpc.Response, from *origin) bool {
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
		resp.Fail(xdr.SystemErr)
		return true
	}
	if s.isLate(from.late()) {
		return false
	}
	run(s.ctx, h, &s.ctr, s.cfg.Logger, req, resp)
	left := deferred(req)
	if s.ctx.Err() != nil || left != nil && left.failed { // the handler has given up halfway; the call may come again
		return true
	}
	if left != nil {
		sum := sumOf(req)
		switch {
		case sum.Known:
		case !left.begun: // refused: nothing has run
			return true
		default: // the rest says which call has run; if it cannot be read, no other call gets this reply
			if _, err := left.fetch(ctx); err == nil {
				sum = sumOf(req)
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
	header  xdr.ReplyHeader
	results []byte
	items   []chunks.Item // as of rpc.Response.Items
	record  []byte        // behind a Listener: the whole reply, instead of the other fields
}

// savedOverhead is about how many octets a reply costs besides its own: the entry, its places in
// the maps, the savedReply.
const savedOverhead = 512

// save copies a reply.
func save(r *rpc.Response) *savedReply {
	v := &savedReply{header: r.Header(0)}
	v.header.Verf.Body = bytes.Clone(r.Verf.Body)
	if !r.HasResults() {
		return v
	}
	v.results = bytes.Clone(r.Results)
	for _, it := range r.Items() {
		v.items = append(v.items, chunks.Item{Pos: it.Pos, Data: bytes.Clone(it.Data)})
	}
	return v
}

// size returns the memory that v takes, in octets.
func (v *savedReply) size() int64 {
	n := savedOverhead + len(v.header.Verf.Body) + len(v.results) + len(v.record)
	for _, it := range v.items {
		n += len(it.Data)
	}
	return int64(n)
}

// restore makes r, which is empty, the reply. It lends the data of the items, which outlive the reply.
func (v *savedReply) restore(r *rpc.Response) {
	r.Stat, r.Low, r.High, r.Verf = v.header.Accept, v.header.Low, v.header.High, v.header.Verf
	if v.header.Denied {
		r.Deny(v.header.AuthStat)
	}
	from := 0
	for _, it := range v.items {
		r.Results = append(r.Results, v.results[from:it.Pos-4]...)
		r.AppendItem(it.Data) // with its count word
		from = it.Pos
	}
	r.Results = append(r.Results, v.results[from:]...)
}
