package page

import (
	"fmt"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
)

// calls follows the XIDs of one connection, so that every arrow can be drawn in the colour of the call that
// it serves, and every reply finds its call.
type calls struct {
	known     bool // the requester: who sent the first call
	requester decode.Dir
	waiting   [2]map[uint32]*row   // calls by their direction and XID
	memory    [2]map[ddp.STag]*row // calls by direction and what they offered
	sinks     [2]map[ddp.STag]*row // calls served by Read Requests of a direction
	times     map[string]*times
}

// times says how long the calls of a procedure took, from the packet that completed the call to the one that
// completed the reply, in nanoseconds: what tshark -z rpc,srt prints.
type times struct {
	Name  string `json:"name"`
	Calls int    `json:"calls"`
	Min   int64  `json:"min"`
	Max   int64  `json:"max"`
	Sum   int64  `json:"sum"`
}

// took enters a call.
func (s *calls) took(c *conn, name string, ns int64) {
	t := s.times[name]
	if t == nil {
		if len(s.times) >= maxCalls {
			return
		}
		if s.times == nil {
			s.times = make(map[string]*times)
		}
		t = &times{Name: name, Min: ns}
		s.times[name] = t
		c.Times = append(c.Times, t)
	}
	t.Calls++
	t.Min, t.Max, t.Sum = min(t.Min, ns), max(t.Max, ns), t.Sum+ns
}

// maxCalls bounds each of these maps, in entries. What connections that never answer have asked is
// forgotten.
const maxCalls = 4096

// note takes a finished row: it finds out which XID the message serves.
func (s *calls) note(c *conn, r *row, ev *decode.Event) {
	switch {
	case ev.Header != nil:
		s.header(c, r, ev)
		c.Requester = s.requester
	case ev.RDMAP == nil:
	case ev.RDMAP.Op == verbs.OpWrite:
		r.serve(s.memory[1-ev.Dir][ev.DDP.STag])
	case ev.RDMAP.Op == verbs.OpReadResponse:
		r.serve(s.sinks[1-ev.Dir][ev.DDP.STag])
	case ev.Message != nil && ev.Message.Read != nil:
		call := s.memory[1-ev.Dir][ev.Message.Read.SourceSTag]
		if r.serve(call); call != nil {
			put(&s.sinks[ev.Dir], ev.Message.Read.SinkSTag, call)
		}
	}
}

// header takes a Send with an RPC-over-RDMA header.
func (s *calls) header(c *conn, r *row, ev *decode.Event) {
	h := ev.Header
	r.XID, r.Credit = fmt.Sprintf("%#08x", h.XID), &h.Credit
	switch {
	case h.Type == rpcrdma.MsgTypeDone:
		return
	case h.Type == rpcrdma.MsgTypeError || ev.RPC != nil && ev.RPC.IsReply || h.Type == rpcrdma.MsgTypeNoMsg && len(h.Read) == 0:
		if call := s.reply(r, h.XID); call != nil && ev.RPC != nil && ev.RPC.Name != "" {
			s.took(c, ev.RPC.Name, r.At-call.At)
		}
	default:
		s.call(r, h)
	}
	if s.known {
		n := len(s.waiting[s.requester])
		r.Open = &n
	}
}

// call enters a call, with the memory that it offers.
func (s *calls) call(r *row, h *rpcrdma.Header) {
	if !s.known {
		s.known, s.requester = true, r.Dir
	}
	put(&s.waiting[r.Dir], h.XID, r)
	for _, seg := range h.Read {
		put(&s.memory[r.Dir], ddp.STag(seg.Handle), r)
	}
	for _, w := range h.Write {
		for _, seg := range w {
			put(&s.memory[r.Dir], ddp.STag(seg.Handle), r)
		}
	}
	for _, seg := range h.Reply {
		put(&s.memory[r.Dir], ddp.STag(seg.Handle), r)
	}
}

// reply joins a reply with its call, nil if there is none.
func (s *calls) reply(r *row, xid uint32) *row {
	waiting := s.waiting[1-r.Dir]
	call := waiting[xid]
	if call != nil {
		r.peer, call.peer = call, r
		delete(waiting, xid)
	}
	return call
}

// serve says that the row moves data for a call.
func (r *row) serve(call *row) {
	if call != nil {
		r.XID, r.peer = call.XID, call
	}
}

// put enters a value into a map, which is emptied first if it is full.
func put[K comparable](m *map[K]*row, k K, r *row) {
	if *m == nil || len(*m) >= maxCalls {
		*m = make(map[K]*row)
	}
	(*m)[k] = r
}
