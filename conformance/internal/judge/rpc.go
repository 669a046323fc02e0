package judge

import (
	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/conformance/internal/decode"
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
