package judge

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// rpcMachine judges RPC-over-RDMA on one connection: the Sends, and the RDMA Reads and Writes for them.
type rpcMachine struct {
	*conn
	sides  [2]rpcSide // by the direction of the calls
	layout chunks.Layout
	limits [2]int // inline thresholds by CONF_RDMA; 0: none
	old    bool   // the peers speak RFC 5666: CONF_RDMA was seen
	calls  int
	server nfsServer
	buf    []byte
	sys    xdr.SysCred
}

func newRPCMachine(c *conn) machine {
	c.rpc = &rpcMachine{conn: c}
	return c.rpc
}

// blind reports whether something unknown may have been sent.
func (m *rpcMachine) blind() bool { return m.late || m.doubt[0] || m.doubt[1] }

func (m *rpcMachine) end() {}

func (m *rpcMachine) event(ev *decode.Event) {
	switch {
	case ev.Kind == decode.KindStartup:
		m.startup(ev)
	case ev.Kind != decode.KindFPDU && ev.Kind != decode.KindPacket || ev.RDMAP == nil || ev.Conn.ULP != decode.ULPRPCRDMA:
	case ev.Message != nil && ev.Message.Op.IsSend():
		m.send(ev)
	case ev.Message != nil && ev.Message.Read != nil:
		m.readRequest(ev)
	case ev.RDMAP.Op == verbs.OpWrite && ev.DDP.Tagged:
		m.write(ev)
	case ev.RDMAP.Op == verbs.OpReadResponse && ev.DDP.Tagged:
		m.readResponse(ev)
	}
}

// send judges a Send.
func (m *rpcMachine) send(ev *decode.Event) {
	b := ev.Message.Payload
	if len(b) == 0 && ev.Message.MSN == 1 && ev.Dir == ev.Conn.Initiator && ev.Conn.Reply != nil && ev.Conn.Reply.Word.PeerToPeer {
		return // the RTR (RFC 6581 Section 4.3)
	}
	m.inline(ev, len(b))
	h, fl := m.header(ev, b)
	switch {
	case h == nil:
		m.unanswerable(ev)
	case fl != sound && !m.waits(ev, h): // it is not known where its RPC message begins
		m.flawedCall(ev, h, fl)
	case fl != sound:
		m.flawedReply(ev, h)
	case h.Type == rpcrdma.MsgTypeDone:
		m.done(ev, h)
	case h.Type == rpcrdma.MsgTypeError:
		m.refusal(ev, h)
	case m.isReply(ev, h):
		m.reply(ev, h, b[h.Size():])
	default:
		m.call(ev, h, b[h.Size():])
	}
}

// waits reports whether a call of the other direction waits for a reply with the XID of a message.
func (m *rpcMachine) waits(ev *decode.Event, h *rpcrdma.Header) bool {
	return m.sides[1-ev.Dir].calls[h.XID] != nil
}

// isReply reports whether a message with a usable header goes in the direction of replies.
func (m *rpcMachine) isReply(ev *decode.Event, h *rpcrdma.Header) bool {
	waits := m.waits(ev, h)
	switch h.Type {
	case rpcrdma.MsgTypeMsg, rpcrdma.MsgTypeMsgP:
		b := ev.Message.Payload
		if n := h.Size(); n <= len(b) && ev.Header.Vers == rpcrdma.Version {
			if _, typ, ok := xdr.PeekXID(b[n:]); ok && typ <= xdr.MsgReply {
				return typ == xdr.MsgReply
			}
		}
		return waits
	case rpcrdma.MsgTypeNoMsg:
		if len(h.Read) > 0 && h.Read[0].Position == 0 {
			return waits // RFC 5666: a reply to be pulled; else a call of either direction
		}
		return waits || h.HasReply && (m.blind() || m.sides[1-ev.Dir].credit.sent > 0)
	case rpcrdma.MsgTypeError:
		return true
	default:
		return waits
	}
}

// unanswerable takes a Send without the four fixed words: nobody can know what it is.
func (m *rpcMachine) unanswerable(ev *decode.Event) {
	side := &m.sides[ev.Dir]
	side.credit.sent++
	side.credit.answered++
	side.runts++
}

// flawedCall remembers a call that its responder cannot use.
func (m *rpcMachine) flawedCall(ev *decode.Event, h *rpcrdma.Header, fl flaw) {
	if h.Type == rpcrdma.MsgTypeDone || h.Type == rpcrdma.MsgTypeError {
		return
	}
	side := &m.sides[ev.Dir]
	side.add(&rpcCall{xid: h.XID, frame: ev.Frame, vers: h.Vers, typ: h.Type, flaw: fl})
	side.credit.sent++
	if fl == tooShort {
		side.credit.answered++ // no answer will come
	}
}

// flawedReply ends the call that a reply with an unusable header answers.
func (m *rpcMachine) flawedReply(ev *decode.Event, h *rpcrdma.Header) {
	side := &m.sides[1-ev.Dir]
	if c := side.calls[h.XID]; c != nil {
		m.tooLarge(ev, c)
		side.answered(c)
		m.creditReply(1-ev.Dir, max(h.Credit, 1)) // the first four words are the same in all versions
	}
}

// header judges the form of a header. It returns nil if not even the fixed words are there.
func (m *rpcMachine) header(ev *decode.Event, b []byte) (*rpcrdma.Header, flaw) {
	h := ev.Header
	if h == nil {
		m.violate("RPCRDMA-001", "%d octets", len(b))
		return nil, tooShort
	}
	bad, ok := errors.AsType[*rpcrdma.HeaderError](ev.Err)
	if ok && h.Type == rpcrdma.MsgTypeError && len(b) == errChunkSize && b[errChunkSize-1] == byte(rpcrdma.ErrChunk) {
		h.Err, ok = rpcrdma.ErrChunk, false // whole in any version: it has that of the call
	}
	if !ok && h.Size() > len(b) { // the error in the segment hides the error in the header
		m.doubt[ev.Dir] = true
		return h, unjudged
	}
	if !ok {
		m.trailing(h, b)
		return h, sound
	}
	fl := wrongHeader
	switch err := bad.Err; {
	case errors.Is(err, rpcrdma.ErrRunt):
		m.violate("RPCRDMA-001", "%d octets of %v", len(b), h.Type)
		fl = tooShort
	case errors.Is(err, rpcrdma.ErrVersion):
		m.version(ev, h)
		fl = wrongVers
	case errors.Is(err, rpcrdma.ErrProc):
		m.violate("RPCRDMA-003", "rdma_proc %d", uint32(h.Type))
	case errors.Is(err, rpcrdma.ErrCodeUnknown):
		m.violate("RPCRDMA-083", "rdma_err %d", uint32(h.Err))
	case errors.Is(err, chunks.ErrWrap):
		m.violate("RPCRDMA-006", "%v", err)
	case errors.Is(err, xdr.ErrRange):
		m.violate("RPCRDMA-004", "%v", err)
	case errors.Is(err, xdr.ErrShort):
		m.violate("RPCRDMA-005", "%v", err)
	default: // more than the decoder accepts: no violation, but it cannot be judged
		m.doubt[ev.Dir], fl = true, unjudged
	}
	return h, fl
}

// trailing judges octets after a header that is the whole message.
func (m *rpcMachine) trailing(h *rpcrdma.Header, b []byte) {
	if h.Type == rpcrdma.MsgTypeMsg || h.Type == rpcrdma.MsgTypeMsgP {
		return
	}
	if n := len(b) - h.Size(); n > 0 {
		m.violate("RPCRDMA-007", "%d octets after the header of %v", n, h.Type)
	}
}

// errChunkSize is the length of an RDMA_ERROR with ERR_CHUNK, octets.
const errChunkSize = 20

// version judges a version that is not 1. Trying one is no violation: the responder says which it supports.
// Using one again after it was refused is a violation, and so is a reply whose version differs from that of
// its call.
func (m *rpcMachine) version(ev *decode.Event, h *rpcrdma.Header) {
	switch c := m.sides[1-ev.Dir].calls[h.XID]; {
	case c != nil && c.vers != h.Vers:
		m.violate("RPCRDMA-002", "rdma_vers %d in the reply to a call of version %d", h.Vers, c.vers)
	case c == nil && slices.Contains(m.sides[ev.Dir].refused, h.Vers):
		m.violate("RPCRDMA-002", "rdma_vers %d was refused before", h.Vers)
	}
}

// rpcCall judges the RPC call that an event brought.
func (m *rpcMachine) rpcCall(ev *decode.Event, c *rpcCall) {
	r := ev.RPC
	if r.Call == nil {
		m.badCall(r)
		// A wrong rpcvers has its own answer; a call with any other bad header is not decodable.
		if c.wrongRPC = r.Err == nil; !c.wrongRPC {
			c.flaw = wrongCall
		}
		return
	}
	h := r.Call
	c.known, c.prog, c.progVers, c.proc, c.gss = true, h.Prog, h.Vers, h.Proc, h.Cred.Protected()
	m.auth(h)
	m.args(r, c)
}

// rpcOf judges a call that an event completed by the last octets of its Read chunks.
func (m *rpcMachine) rpcOf(ev *decode.Event) {
	r := ev.RPC
	if r == nil || !r.Pulled {
		return
	}
	c := m.sides[ev.Dir].calls[r.XID]
	switch {
	case c == nil || c.flaw != sound || c.wrongArgs:
	case c.known:
		m.args(r, c)
	case r.Call == nil && r.Err == nil || errors.Is(r.Err, decode.ErrNotPlaced):
	default:
		m.rpcCall(ev, c)
		if c.known {
			m.reduced(ev, c, nil)
		}
	}
}

// badCall judges a call whose header does not decode.
func (m *rpcMachine) badCall(r *decode.RPC) {
	bad, ok := errors.AsType[*xdr.DecodeError](r.Err)
	switch {
	case r.Err == nil:
		m.violate("RPC-002", "rpcvers is not 2")
	case !ok:
	case (bad.Field == "cred" || bad.Field == "verf") && errors.Is(bad, xdr.ErrRange):
		m.violate("RPC-003", "%v", bad)
	case errors.Is(bad, xdr.ErrShort):
		m.violate("RPC-004", "%v", bad)
	}
}

// auth judges the credential and the verifier of a call.
func (m *rpcMachine) auth(h *xdr.CallHeader) {
	for _, a := range []*xdr.Auth{&h.Cred, &h.Verf} {
		if a.Flavor == xdr.AuthNone && len(a.Body) > 0 {
			m.violate("RPC-007", "AUTH_NONE of %d octets", len(a.Body))
			return
		}
	}
	if h.Cred.Flavor != xdr.AuthSys {
		return
	}
	sys := &m.sys
	switch err := sys.Parse(h.Cred.Body); {
	case err != nil:
		m.violate("RPC-008", "%v", err)
	case !bytes.Equal(sys.Append(m.buf[:0]), h.Cred.Body):
		m.violate("RPC-014", "pad of the machine name in AUTH_SYS")
	case h.Verf.Flavor != xdr.AuthNone:
		m.violate("RPC-009", "verifier %v", h.Verf.Flavor)
	}
}

// lastProc are the last procedures of NFS and MOUNT.
var lastProc = map[served]uint32{{100003, 3, 0}: uint32(nfs3.ProcCommit), {100003, 4, 0}: 1, {100005, 3, 0}: 5}

// rpcReply judges the RPC reply that an event brought to a call.
func (m *rpcMachine) rpcReply(ev *decode.Event, c *rpcCall) {
	r := ev.RPC
	if r == nil || !r.IsReply {
		return
	}
	if r.Reply == nil {
		m.badReply(r)
		return
	}
	m.verdict(r, c)
	if m.replyEnd(r) && c.known {
		if last, ok := lastProc[served{c.prog, c.progVers, 0}]; ok && c.proc > last {
			m.violate("RPC-019", "SUCCESS of procedure %d of program %d, version %d, whose last is %d", c.proc, c.prog, c.progVers, last)
		}
		m.server.serves(c)
		m.res(r, c)
		m.ccpReply(ev, c)
	}
}

// badReply judges a reply whose header does not decode.
func (m *rpcMachine) badReply(r *decode.RPC) {
	bad, ok := errors.AsType[*xdr.DecodeError](r.Err)
	switch {
	case !ok:
	case bad.Field == "verf" && errors.Is(bad, xdr.ErrRange):
		m.violate("RPC-003", "%v", bad)
	case errors.Is(bad, xdr.ErrRange):
		m.violate("RPC-005", "%v", bad)
	case errors.Is(bad, xdr.ErrShort):
		m.violate("RPC-006", "%v", bad)
	}
}

// verdict judges a reply that refuses its call.
func (m *rpcMachine) verdict(r *decode.RPC, c *rpcCall) {
	h := r.Reply
	inRange := func(v uint32) bool { return h.Low > h.High || h.Low <= v && v <= h.High }
	switch {
	case c.wrongRPC && !(h.Denied && h.Reject == xdr.RPCMismatch):
		m.violate("RPC-011", "the call in frame %d is not of version 2", c.frame)
	case h.Denied && h.Reject == xdr.RPCMismatch && !c.wrongRPC && inRange(xdr.RPCVersion):
		m.violate("RPC-010", "RPC_MISMATCH %d to %d, the call has %d", h.Low, h.High, xdr.RPCVersion)
	case h.Denied && h.Reject == xdr.RPCMismatch && !c.wrongRPC:
		m.violate("RPC-011", "RPC_MISMATCH, and the call in frame %d is of version 2", c.frame)
	case h.Denied && h.Reject == xdr.AuthError && (h.AuthStat == xdr.AuthOK || h.AuthStat == xdr.AuthInvalidResp || h.AuthStat == xdr.AuthFailed):
		m.violate("RPC-015", "%v", h.AuthStat)
	case !h.Denied && h.Accept == xdr.ProgMismatch && c.known && inRange(c.progVers):
		m.violate("RPC-010", "PROG_MISMATCH %d to %d, the call has %d", h.Low, h.High, c.progVers)
	case !h.Denied && h.Accept == xdr.GarbageArgs && c.goodArgs:
		m.violate("RPC-016", "the arguments in frame %d decode", c.frame)
	case !h.Denied && (h.Accept == xdr.ProgUnavail && m.server.served[served{c.prog, 0, 0}] || h.Accept == xdr.ProcUnavail && m.server.served[served{c.prog, c.progVers, c.proc}]):
		m.violate("RPC-018", "%v, and the server has served program %d, version %d, procedure %d", h.Accept, c.prog, c.progVers, c.proc)
	}
	switch {
	case !h.Denied && h.Verf.Flavor == xdr.AuthSys:
		m.violate("RPC-017", "verifier %v of %d octets", h.Verf.Flavor, len(h.Verf.Body))
	case !h.Denied && h.Verf.Flavor == xdr.AuthNone && len(h.Verf.Body) > 0:
		m.violate("RPC-007", "AUTH_NONE of %d octets", len(h.Verf.Body))
	}
}

// replyEnd judges whether a refusal ends after its header. It reports whether there are results.
func (m *rpcMachine) replyEnd(r *decode.RPC) bool {
	if !r.Reply.Denied && r.Reply.Accept == xdr.Success {
		return true
	}
	if n := len(r.Body); n > 0 {
		m.violate("RPC-013", "%d octets after a refusal", n)
	}
	return false
}

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

// results judges the results that a reply has moved to Write chunks by the upper-layer binding (RFC 8166
// Section 6, RFC 8267 Section 4).
func (m *rpcMachine) results(ev *decode.Event, h *rpcrdma.Header, c *rpcCall) {
	var written uint64
	for _, w := range h.Write {
		written += w.Room()
	}
	bind := bindingOf(c)
	if !c.known || bind == bindingUnknown || ev.RPC == nil || ev.RPC.Reply == nil {
		return
	}
	if bind == bindingNFS4 {
		m.compoundWritten(ev.RPC, h.Write)
		return
	}
	n, found := 0, false
	if r := ev.RPC.Reply; bind == bindingNFS3 && !r.Denied && r.Accept == xdr.Success {
		_, n, found = chunks.NFSv3.FindResult(c.prog, c.progVers, c.proc, ev.RPC.Body)
	}
	offered := uint64(0)
	if len(c.lists.Write) > 0 {
		offered = c.lists.Write[0].Room()
	}
	switch count := uint64(n); {
	case found && !c.gss && len(h.Write) > 1 && h.Write[0].Room() == 0 && written > 0 && offered > 0:
		m.violate("RPCRDMA-045", "%d octets in a later Write chunk, and the first is unused", written)
	case !found && written > 0:
		m.violate("RPCRDMA-036", "%d octets in a Write chunk, and no eligible result", written)
	case !found || c.gss:
	case written == 0 && count > 0 && offered > 0:
		m.violate("RPCRDMA-035", "a result of %d octets inline, although there was a Write chunk of %d", count, offered)
	case written == 0 || written == count:
	case written == (count+3)&^3:
		m.violate("RPCRDMA-038", "%d octets in the Write chunk for a result of %d", written, count)
	default:
		m.violate("RPCRDMA-037", "%d octets in the Write chunk for a result of %d", written, count)
	}
}

// wasPulled judges whether a responder has read the call that it answers. Choice: a call must have been read
// if all of it came by RDMA Read, or if it is a WRITE or SYMLINK that succeeded. Other calls may be refused
// before anything is read, and a call that was sent before may be answered from a duplicate request cache,
// which read it the first time.
func (m *rpcMachine) wasPulled(ev *decode.Event, h *rpcrdma.Header, c *rpcCall) {
	if m.blind() || len(c.lists.Read) == 0 || c.flaw != sound || c.pulled() {
		return
	}
	if ev.RC != nil && len(m.reads.sides[ev.Dir].out) > 0 {
		return // perhaps the responses are missing, or come later in the capture: nothing says what the server has received
	}
	done := ev.RPC != nil && ev.RPC.Reply != nil && ev.RPC.Reply.Accept == xdr.Success && !ev.RPC.Reply.Denied
	if c.typ == rpcrdma.MsgTypeNoMsg || done && !c.again && bindingOf(c) == bindingNFS3 && ev.RPC.StatusCode == 0 {
		m.violate("RPCRDMA-053", "%v to the call in frame %d, whose Read chunks were not all read", h.Type, c.frame)
	}
}

// write judges a segment of an RDMA Write.
func (m *rpcMachine) write(ev *decode.Event) {
	n := len(ev.DDP.Payload)
	if n == 0 {
		return // its STag and TO mean nothing (RFC 5040 Section 5.4)
	}
	if mem := m.touch(ev, ev.DDP.STag, ev.DDP.TO, n, false); mem != nil {
		mem.moved.add(ev.DDP.TO-mem.Offset, ev.DDP.TO-mem.Offset+uint64(n))
	}
}

// readRequest judges a Read Request and keeps it for its Responses.
func (m *rpcMachine) readRequest(ev *decode.Event) {
	r := readInProgress{ReadRequest: *ev.Message.Read}
	if r.Size > 0 {
		r.mem = m.touch(ev, r.SourceSTag, r.SourceTO, int(r.Size), true)
	}
	q := &m.sides[1-ev.Dir].reads
	if len(*q) >= maxPulls {
		*q = (*q)[1:]
	}
	*q = append(*q, r)
}

// readResponse records what was read. The side that sends it owns the memory; Responses come in the order of
// the Requests (RFC 5040 Section 5.5).
func (m *rpcMachine) readResponse(ev *decode.Event) {
	m.rpcOf(ev) // this completes the call
	q := &m.sides[ev.Dir].reads
	if len(*q) == 0 {
		return
	}
	r := (*q)[0]
	if ev.DDP.Last {
		*q = (*q)[1:]
	}
	n, off := uint64(len(ev.DDP.Payload)), ev.DDP.TO-r.SinkTO
	if r.mem == nil || off > uint64(r.Size) || n > uint64(r.Size)-off {
		return
	}
	at := r.SourceTO - r.mem.Offset + off
	r.mem.moved.add(at, at+n)
}

// unwritten returns the violation of the reply that came before an RDMA Write of this segment, nil if there was none.
func (m *rpcMachine) unwritten(ev *decode.Event) *Violation {
	for _, mem := range m.sides[1-ev.Dir].mem[chunks.Handle(ev.DDP.STag)] {
		if ev.DDP.Tagged && mem.call.unwritten != nil && mem.holds(ev.DDP.TO, len(ev.DDP.Payload)) {
			return mem.call.unwritten
		}
	}
	return nil
}

// touch judges access to n octets of the peer's memory, and returns the memory, nil if it is not in a chunk
// of a call that waits.
func (m *rpcMachine) touch(ev *decode.Event, tag ddp.STag, to uint64, n int, reading bool) *memory {
	side := &m.sides[1-ev.Dir]
	var late, wrong *memory
	for _, mem := range side.mem[chunks.Handle(tag)] {
		switch {
		case !mem.holds(to, n):
		case (mem.use == forRead) != reading:
			wrong = mem
		case side.waits(mem.call):
			return mem
		default:
			late = mem
		}
	}
	if m.found > 0 {
		return nil // a lower layer has reported it
	}
	if m.blind() || side.forgot {
		m.strange = true // the call may not be in the capture
		return nil
	}
	what, rule := "RDMA Write", "RPCRDMA-050"
	if reading {
		what, rule = "Read Request", "RPCRDMA-051"
	}
	switch {
	case wrong != nil:
		m.violate("RPCRDMA-054", "%s of %d octets at %v %#x, which the call in frame %d offers for the opposite", what, n, tag, to, wrong.call.frame)
	case late != nil:
		m.violateAfter(late.call.unwritten, ev.Dir, "RPCRDMA-052", "%s of %d octets at %v %#x, a chunk of the call in frame %d, which was answered before", what, n, tag, to, late.call.frame)
	default:
		m.violate(rule, "%s of %d octets at %v %#x, which no waiting call offers", what, n, tag, to)
	}
	return nil
}

// offersSTag reports whether the call offers memory under tag.
func (c *rpcCall) offersSTag(tag ddp.STag) bool { return c.offers(chunks.Handle(tag)) }

// refusal judges an RDMA_ERROR (RFC 8166 Section 4.5).
func (m *rpcMachine) refusal(ev *decode.Event, h *rpcrdma.Header) {
	if !m.blind() && m.fromRequester(ev, h) {
		m.violate("RPCRDMA-089", "RDMA_ERROR from the side that sends the calls")
		return
	}
	c := m.answers(ev, h)
	if c == nil {
		return
	}
	switch {
	case c.flaw == tooShort:
		m.violate("RPCRDMA-084", "%v to the message in frame %d", h.Err, c.frame)
	case c.flaw == wrongVers && h.Err != rpcrdma.ErrVers:
		m.violate("RPCRDMA-085", "%v to a call of version %d", h.Err, c.vers)
	case h.Vers != c.vers:
		m.violate("RPCRDMA-086", "rdma_vers %d, the call has %d", h.Vers, c.vers)
	case h.Err == rpcrdma.ErrVers && (h.Low > h.High || h.Low <= c.vers && c.vers <= h.High):
		m.violate("RPCRDMA-087", "versions %d to %d, the call has %d", h.Low, h.High, c.vers)
	}
	if side := &m.sides[1-ev.Dir]; h.Err == rpcrdma.ErrVers && c.vers != rpcrdma.Version && len(side.refused) < 16 {
		side.refused = append(side.refused, c.vers)
	}
	m.invalidates(ev, c)
	m.closeCall(ev, c)
}

// fromRequester reports whether a message comes from a side that has sent calls and received none: such a
// side has nothing to answer.
func (m *rpcMachine) fromRequester(ev *decode.Event, h *rpcrdma.Header) bool {
	own, peer := &m.sides[ev.Dir], &m.sides[1-ev.Dir]
	return peer.calls[h.XID] == nil && peer.old[h.XID] == nil && peer.credit.sent == 0 && own.credit.sent > 0
}
