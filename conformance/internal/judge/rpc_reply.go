package judge

import (
	"errors"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// reply judges a reply with a usable header; b is what came after it.
func (m *rpcMachine) reply(ev *decode.Event, h *rpcrdma.Header, b []byte) {
	c := m.answers(ev, h)
	if !m.replyPayload(h, b) || c == nil || c.flaw == unjudged {
		m.closeCall(ev, c)
		return
	}
	switch {
	case c.flaw == wrongVers:
		m.violate("RPCRDMA-085", "an RPC reply to a call of version %d", c.vers)
	case c.flaw == wrongCall && refuses(ev.RPC):
	case c.flaw != sound:
		m.violate("RPCRDMA-088", "an RPC reply to the call in frame %d", c.frame)
	}
	m.msgP(h)
	if len(h.Read) > 0 {
		m.replyReads(ev, h)
	}
	if m.returned(h, c) {
		m.placed(h, c)
		m.results(ev, h, c)
	}
	m.wasPulled(ev, h, c)
	m.invalidates(ev, c)
	m.rpcReply(ev, c)
	m.closeCall(ev, c)
}

// refuses reports whether a reply says that its call was not executed: RFC 8166 Section 4.5.2 wants ERR_CHUNK for a
// header that does not decode, and leaves open what becomes of an RPC message that does not.
func refuses(r *decode.RPC) bool {
	return r != nil && (r.Reply == nil || r.Reply.Denied || r.Reply.Accept != xdr.Success)
}

// answers returns the call that a reply or an RDMA_ERROR answers, nil if there is none.
func (m *rpcMachine) answers(ev *decode.Event, h *rpcrdma.Header) *rpcCall {
	side := &m.sides[1-ev.Dir]
	if c := side.calls[h.XID]; c != nil {
		if c.flaw != tooShort { // otherwise it was written off when it was sent
			m.creditReply(1-ev.Dir, h.Credit)
		}
		return c
	}
	switch old := side.old[h.XID]; {
	case m.blind() || side.forgot:
	case old != nil:
		m.violateAfter(old.second, ev.Dir, "RPCRDMA-081", "the call in frame %d was answered before", old.frame)
	case h.Type == rpcrdma.MsgTypeError && side.runts > 0:
		side.runts--
		m.violate("RPCRDMA-084", "RDMA_ERROR to a Send too short to be a header")
	default:
		m.violate("RPCRDMA-080", "%v with XID %#08x, which no call has", h.Type, h.XID)
	}
	return nil
}

// closeCall ends a call that was answered.
func (m *rpcMachine) closeCall(ev *decode.Event, c *rpcCall) {
	if c != nil {
		m.sides[1-ev.Dir].answered(c)
	}
}

// replyPayload judges whether a reply comes with the RPC message that its type promises.
func (m *rpcMachine) replyPayload(h *rpcrdma.Header, b []byte) bool {
	if h.Type == rpcrdma.MsgTypeNoMsg {
		if h.HasReply && h.Reply.Room() > 0 || len(h.Read) > 0 && h.Read[0].Position == 0 {
			return true
		}
		m.violate("RPCRDMA-008", "RDMA_NOMSG without a used Reply chunk")
		return false
	}
	return m.message(h, b)
}

// returned judges the chunks of a reply against those of its call. It reports whether their contents can be
// judged.
func (m *rpcMachine) returned(h *rpcrdma.Header, c *rpcCall) bool {
	ok := c.flaw == sound
	if len(h.Write) != len(c.lists.Write) && !(m.old && len(h.Write) == 0) {
		m.violate("RPCRDMA-030", "%d Write chunks, the call has %d", len(h.Write), len(c.lists.Write))
		ok = false
	}
	for i := range min(len(h.Write), len(c.lists.Write)) {
		ok = m.returnedChunk(c.lists.Write[i], h.Write[i]) && ok
	}
	switch {
	case h.HasReply && !c.lists.HasReply:
		m.violate("RPCRDMA-041", "a Reply chunk that was not offered")
		return false
	case h.HasReply:
		ok = m.returnedChunk(c.lists.Reply, h.Reply) && ok
		if ok && h.Type != rpcrdma.MsgTypeNoMsg && h.Reply.Room() > 0 {
			m.violate("RPCRDMA-042", "%d octets in the Reply chunk of %v", h.Reply.Room(), h.Type)
		}
	case c.lists.HasReply && !m.old:
		m.violate("RPCRDMA-040", "no Reply chunk, the call has one")
	}
	return ok
}

// returnedChunk judges a returned chunk.
func (m *rpcMachine) returnedChunk(offered, got chunks.WriteChunk) bool {
	if len(got) != len(offered) {
		m.violate("RPCRDMA-031", "%d segments of %d", len(got), len(offered))
		return false
	}
	short := false
	for i := range got {
		o, g := offered[i], got[i]
		switch {
		case g.Handle != o.Handle || g.Offset != o.Offset:
			m.violate("RPCRDMA-031", "segment %d is %v at %#x, was %v at %#x", i+1, g.Handle, g.Offset, o.Handle, o.Offset)
			return false
		case g.Length > o.Length:
			m.violate("RPCRDMA-032", "segment %d has %d octets, offered with %d", i+1, g.Length, o.Length)
			return false
		case short && g.Length > 0:
			m.violate("RPCRDMA-033", "segment %d has %d octets, the one before it is not full", i+1, g.Length)
			return false
		}
		short = short || g.Length < o.Length
	}
	return true
}

// placed judges whether the octets that a reply returns as written were written before it.
func (m *rpcMachine) placed(h *rpcrdma.Header, c *rpcCall) {
	if m.blind() {
		return
	}
	for i := range h.Write {
		m.placedChunk(h.Write[i], c.segments(i), c)
	}
	if h.HasReply {
		m.placedChunk(h.Reply, c.segments(-1), c)
	}
}

func (m *rpcMachine) placedChunk(got chunks.WriteChunk, mem []*memory, c *rpcCall) {
	for i := range got {
		if !mem[i].moved.cover(0, uint64(got[i].Length)) {
			c.unwritten = m.violate("RPCRDMA-034", "segment %d of %d octets at %v %#x was not written to its end", i+1, got[i].Length, got[i].Handle, got[i].Offset)
			return
		}
	}
}

// tooLarge judges a reply whose segments have more octets than are decoded. The segments of its call do not,
// so they differ.
func (m *rpcMachine) tooLarge(ev *decode.Event, c *rpcCall) {
	bad, ok := errors.AsType[*xdr.DecodeError](ev.Err)
	switch {
	case !ok || !errors.Is(bad, chunks.ErrTooLarge) || c.flaw != sound || m.old:
	case bad.Field == "read list":
		m.violate("RPCRDMA-044", "more than 1 GiB in it")
	default:
		m.violate("RPCRDMA-032", "segments of more than 1 GiB, offered with fewer octets")
	}
}
