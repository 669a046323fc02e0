package decode

import (
	"fmt"
	"slices"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// rpcState is what the RPC-over-RDMA messages of one connection leave behind for later ones.
type rpcState struct {
	opt    Options
	mem    *budget
	calls  [2]callTable     // by the direction of the call
	reads  [2][]ReadRequest // Read Requests not answered yet, by their direction, oldest first
	vague  bool             // octets are missing: reads may lack some, and hold some that were answered
	layout chunks.Layout
}

func newRPCState(opt Options, mem *budget) *rpcState {
	return &rpcState{opt: opt, mem: mem}
}

// headerLimits is what a decoder accepts: more than any peer does, but still bounded by the length of a
// message.
var headerLimits = chunks.Limits{MaxReadSegments: 4096, MaxWriteChunks: 256, MaxSegments: 4096, MaxOctets: 1 << 30}

// release forgets everything.
func (s *rpcState) release() {
	for i := range s.calls {
		t := &s.calls[i]
		for _, c := range t.order {
			if t.byXID[c.xid] == c {
				c.each(func(r *region) { r.free(s.mem) })
			}
		}
		*t = callTable{}
		s.reads[i] = nil
	}
}

// send decodes a Send.
func (c *Conn) send(ev *Event) {
	if c.Info.ULP == ULPAuto {
		c.Info.ULP = guessULP(ev.Message.Payload)
		if c.Info.ULP == ULPOpaque && c.Info.Unknown != 0 {
			c.Info.ULP = ULPAuto // this may not be the first Send: the next one decides
		}
	}
	if c.Info.ULP == ULPRPCRDMA {
		c.rpc.send(ev)
	}
}

// guessULP decides by the first Send of a connection that has no private data of RFC 8797. A message counts
// as RPC-over-RDMA if its header decodes and an RPC message that follows has the same XID and is a call or a
// reply.
func guessULP(b []byte) ULP {
	var h rpcrdma.Header
	n, err := h.Decode(b, &headerLimits)
	if err != nil || h.Vers != rpcrdma.Version {
		return ULPOpaque
	}
	switch h.Type {
	case rpcrdma.MsgTypeMsg, rpcrdma.MsgTypeMsgP:
		xid, typ, ok := xdr.PeekXID(b[n:])
		if !ok || xid != h.XID || typ > xdr.MsgReply {
			return ULPOpaque
		}
	case rpcrdma.MsgTypeNoMsg:
		if len(b) > n || len(h.Read) == 0 && !h.HasReply {
			return ULPOpaque
		}
	default:
		return ULPOpaque // a connection does not begin with any other type
	}
	return ULPRPCRDMA
}

// send decodes the RPC-over-RDMA header in a Send and the RPC message after it.
func (s *rpcState) send(ev *Event) {
	b := ev.Message.Payload
	h := new(rpcrdma.Header)
	n, err := h.Decode(b, &headerLimits)
	if err != nil {
		ev.fail(fmt.Errorf("RPC-over-RDMA header: %w", err))
		if len(b) >= rpcrdma.FixedSize {
			ev.Header = h
		}
		return
	}
	ev.Header = h
	body := b[n:]
	switch h.Type {
	case rpcrdma.MsgTypeMsg, rpcrdma.MsgTypeMsgP:
		s.inline(ev, body)
	case rpcrdma.MsgTypeNoMsg:
		s.long(ev)
	case rpcrdma.MsgTypeError:
		s.close(ev, s.calls[1-ev.Dir].byXID[h.XID])
	case rpcrdma.MsgTypeDone: // says nothing more
	}
	if h.Type != rpcrdma.MsgTypeMsg && h.Type != rpcrdma.MsgTypeMsgP && len(body) > 0 {
		ev.fail(fmt.Errorf("%w: %d octets after the header", ErrTrailing, len(body)))
	}
}

// inline handles an RPC message that came in the Send.
func (s *rpcState) inline(ev *Event, msg []byte) {
	xid, typ, ok := xdr.PeekXID(msg)
	switch {
	case !ok:
		ev.fail(fmt.Errorf("%w: RPC message of %d octets", ErrShort, len(msg)))
	case typ == xdr.MsgCall:
		s.inlineCall(ev, msg)
	case typ == xdr.MsgReply:
		s.inlineReply(ev, msg)
	default:
		ev.fail(fmt.Errorf("%w: RPC message type %d", xdr.ErrRange, typ))
	}
	if ok && xid != ev.Header.XID {
		ev.fail(fmt.Errorf("XID %#08x in the transport header, %#08x in the RPC message", ev.Header.XID, xid))
	}
}

// open enters the call that a header announces into the table.
func (s *rpcState) open(ev *Event) *call {
	c := &call{xid: ev.Header.XID, frame: ev.Frame}
	c.offered(&ev.Header.Lists)
	s.calls[ev.Dir].add(c, s.opt.MaxCalls, s.mem)
	return c
}

// know keeps the header of a call.
func (c *call) know(r *RPC) {
	if r.Call != nil {
		c.known, c.protected, c.gss, c.header = true, r.protected, r.GSS, *r.Call
		c.header.Cred.Body, c.header.Verf.Body = nil, nil
	}
}

// inlineCall handles a call that came in the Send, perhaps with an argument in Read chunks.
func (s *rpcState) inlineCall(ev *Event, msg []byte) {
	c := s.open(ev)
	msg, err := unpad(ev, msg)
	r := &RPC{Whole: len(c.reads) == 0, msgp: ev.Header.Type == rpcrdma.MsgTypeMsgP}
	r.parseCall(msg)
	r.padded(err)
	c.know(r)
	if len(c.reads) > 0 {
		c.inline, c.msgp, c.padded = slices.Clone(msg), r.msgp, err
	}
	s.give(ev, r)
}

// long handles RDMA_NOMSG (RFC 8166 Section 3.5.3): a call in Position Zero chunks, which must be pulled
// first, or a reply in the Reply chunk, which was filled before.
func (s *rpcState) long(ev *Event) {
	h := ev.Header
	positionZero := len(h.Read) > 0 && h.Read[0].Position == 0
	switch {
	case positionZero && s.calls[1-ev.Dir].byXID[h.XID] != nil:
		// Choice: with the XID of a waiting call this is a reply for the client to pull (RFC 5666 Section
		// 3.4), not a call of the backward direction (RFC 8167). What the client pulls is not followed.
		r := &RPC{IsReply: true, XID: h.XID}
		c := s.answered(ev, r)
		s.give(ev, r)
		s.close(ev, c)
	case positionZero:
		s.open(ev)
	case h.HasReply:
		s.longReply(ev)
	default:
		ev.fail(fmt.Errorf("RDMA_NOMSG without a message: %w", chunks.ErrNoStream))
	}
}

// give finishes an RPC and attaches it to its event.
func (s *rpcState) give(ev *Event, r *RPC) {
	caller := ev.Dir
	if r.IsReply {
		caller = 1 - ev.Dir
	}
	ev.Conn.guessInitiator(r, caller)
	r.Backward = caller != ev.Conn.Initiator
	r.decodeBody(ev.Header)
	r.doubt()
	ev.RPC = r
	if r.Err != nil {
		ev.fail(r.Err)
	}
}
