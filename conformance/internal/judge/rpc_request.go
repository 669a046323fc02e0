package judge

import (
	"encoding/binary"
	"errors"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// call judges a call with a usable header; b is what came after it.
func (m *rpcMachine) call(ev *decode.Event, h *rpcrdma.Header, b []byte) {
	side := &m.sides[ev.Dir]
	c := &rpcCall{xid: h.XID, frame: ev.Frame, vers: h.Vers, typ: h.Type}
	if first := side.calls[h.XID]; first != nil && !m.blind() {
		c.second = m.violate("RPCRDMA-082", "XID %#08x of the call in frame %d", h.XID, first.frame)
	}
	m.msgP(h)
	c.flaw = m.payload(h, b)
	if c.flaw == sound {
		c.flaw = m.positions(h, len(b))
	}
	c.offer(&h.Lists)
	side.add(c)
	m.creditCall(ev.Dir, h.Credit)
	m.invalidates(ev, nil)
	m.calls++
	if ev.RPC == nil || c.flaw != sound {
		return
	}
	m.rpcCall(ev, c)
	m.sentBefore(ev, c)
	if c.known && h.Type == rpcrdma.MsgTypeMsg {
		m.reduced(ev, c, b)
		m.replyRoom(ev, c)
		m.ccpCall(ev)
	}
}

// payload judges whether a call comes with the RPC message that its type promises.
func (m *rpcMachine) payload(h *rpcrdma.Header, b []byte) flaw {
	if h.Type == rpcrdma.MsgTypeNoMsg {
		if len(h.Read) > 0 && h.Read[0].Position == 0 {
			return sound
		}
		m.violate("RPCRDMA-008", "RDMA_NOMSG without a Position Zero chunk")
		return wrongHeader
	}
	if !m.message(h, b) {
		return wrongHeader
	}
	return sound
}

// message judges whether b, the inline octets after header h, begins like an RPC message of its XID. A message
// that is neither a call nor a reply is judged as the one that is expected.
func (m *rpcMachine) message(h *rpcrdma.Header, b []byte) bool {
	xid, typ, ok := xdr.PeekXID(b)
	switch {
	case !ok:
		m.violate("RPCRDMA-009", "%d octets after the header", len(b))
	case xid != h.XID:
		m.violate("RPCRDMA-010", "rdma_xid %#08x, XID %#08x", h.XID, xid)
	case typ > xdr.MsgReply:
		m.violate("RPC-001", "msg_type %d", typ)
	default:
		return true
	}
	return false
}

// positions judges the Read list of a call with this many inline octets.
func (m *rpcMachine) positions(h *rpcrdma.Header, inline int) flaw {
	for i, s := range h.Read {
		switch {
		case s.Position%4 != 0:
			m.violate("RPCRDMA-020", "Position %d", s.Position)
			return wrongHeader
		case s.Position == 0 && h.Type != rpcrdma.MsgTypeNoMsg:
			m.violate("RPCRDMA-022", "Position 0 in %v", h.Type)
			return wrongHeader
		case i > 0 && s.Position < h.Read[i-1].Position:
			m.violate("RPCRDMA-021", "Position %d after %d", s.Position, h.Read[i-1].Position)
			return sound
		}
	}
	m.layout.Reset()
	if len(h.Read) == 0 || h.Type == rpcrdma.MsgTypeMsgP {
		return sound
	}
	lim := chunks.Limits{MaxOctets: 1 << 30, MaxReadSegments: 1 << 16}
	var err error
	if h.Type == rpcrdma.MsgTypeNoMsg {
		err = m.layout.BuildLong(h.Read, &lim)
	} else {
		err = m.layout.Build(h.Read, inline, &lim)
	}
	switch {
	case errors.Is(err, chunks.ErrOverlap):
		m.violate("RPCRDMA-024", "%v", err)
	case errors.Is(err, chunks.ErrBeyond):
		m.violate("RPCRDMA-023", "%v", err)
	default:
		return sound
	}
	return wrongHeader
}

// reduced judges the arguments that a call has moved to Read chunks. b is what is left of the message in the
// Send, nil for a long call; the arguments in ev may be whole or not.
func (m *rpcMachine) reduced(ev *decode.Event, c *rpcCall, b []byte) {
	at := -1
	for i, s := range c.lists.Read {
		if s.Position == 0 || i > 0 && s.Position == c.lists.Read[i-1].Position {
			continue
		}
		switch {
		case c.gss:
		case at >= 0 && bindingOf(c) != bindingUnknown && bindingOf(c) != bindingNFS4, !eligible(ev.RPC, c, int(s.Position)):
			c.odd = m.violate("RPCRDMA-027", "%s has no eligible argument at Position %d", c.name(), s.Position)
			return
		}
		at = int(s.Position)
	}
	if c.gss && (at >= 0 || len(c.lists.Write) > 0) {
		m.violate("RPCRDMA-028", "chunks of a call under RPCSEC_GSS integrity or privacy")
		return
	}
	if bindingOf(c) == bindingNFS4 && b != nil {
		m.compoundReduced(ev.RPC)
	}
	if c.prog == progNFS && b != nil {
		for _, ch := range m.layout.Chunks {
			m.chunkLength(c, b, ch)
		}
	}
}

// eligible reports whether the argument at a Position may be reduced, as far as the binding is known (RFC
// 8267 Section 4).
func eligible(r *decode.RPC, c *rpcCall, at int) bool {
	switch bindingOf(c) {
	case bindingNone:
		return false
	case bindingNFS3:
		pos, _, ok := chunks.NFSv3.FindArg(c.prog, c.progVers, c.proc, r.Body)
		return ok && r.Call.Size()+pos == at
	default:
		return true
	}
}

// chunkLength judges the length of a Read chunk against the count word before it, which stays inline (RFC
// 8166 Section 3.4.5.2).
func (m *rpcMachine) chunkLength(c *rpcCall, b []byte, ch chunks.Placed) {
	at := -1
	for _, s := range m.layout.Inline {
		if end := s.Dst + s.Len; end == ch.Pos && s.Len >= 4 {
			at = s.Src + s.Len - 4
		}
	}
	if at < 0 || at+4 > len(b) {
		return
	}
	switch n := int64(binary.BigEndian.Uint32(b[at:])); {
	case int64(ch.Len) == n:
	case int64(ch.Len) == (n+3)&^3:
		m.violate("RPCRDMA-026", "Read chunk of %d octets for an item of %d", ch.Len, n)
	default:
		c.wrongArgs = true // the arguments will not decode
		m.violate("RPCRDMA-025", "Read chunk of %d octets for an item of %d", ch.Len, n)
	}
}
