package judge

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// startup judges the two startup frames (RFC 5044 Section 7.1, RFC 6581), and what may be sent before and
// right after them.
type startup struct {
	*conn
	firstFPDU int     // packet that completed the initiator's first FPDU
	held      int     // octets of the initiator before the Reply
	early     bool    // octets of the initiator before the Reply were reported
	keyless   [2]bool // no key, which was reported
	after     bool    // an FPDU after a rejection was reported
	malformed bool    // the Request cannot be understood, so that no Reply can be right
}

func (m *startup) event(ev *decode.Event) {
	switch ev.Kind {
	case decode.KindStartup:
		m.frame(ev)
	case decode.KindUndecoded:
		m.other(ev)
	case decode.KindFPDU:
		m.order(ev)
	case decode.KindOpen, decode.KindClose, decode.KindRecord, decode.KindPacket:
	}
}

func (m *startup) end() {}

// frame judges one startup frame by itself, then a Reply against its Request.
func (m *startup) frame(ev *decode.Event) {
	f := ev.Startup
	if errors.Is(ev.Err, mpa.ErrRole) {
		m.role(ev)
		return
	}
	m.header(f)
	if m.found > 0 {
		m.malformed = m.malformed || !f.IsReply
		return
	}
	m.flags(f)
	if f.Enhanced {
		m.word(f)
	}
	if f.IsReply && m.info.Request != nil && !m.malformed {
		m.held = m.info.Held[1-ev.Dir]
		m.reply(m.info.Request, f)
	}
}

// role judges a frame of the wrong kind.
func (m *startup) role(ev *decode.Event) {
	switch {
	case !ev.Startup.IsReply:
		m.violate("MPA-001", "a Request, but the peer has sent one too")
	case !m.doubt[1-ev.Dir]:
		m.violate("MPA-002", "a Reply before any Request")
	}
}

// header judges what makes a frame malformed.
func (m *startup) header(f *decode.Startup) {
	switch {
	case f.PDLength > mpa.MaxPrivateData:
		m.violate("MPA-004", "PD_Length %d", f.PDLength)
	case f.Rev != 1 && f.Rev != 2:
		m.violate("MPA-005", "revision %d", f.Rev)
	case f.Rev == 2 && f.Flags&flagS != 0 && f.PDLength < mpa.EnhancedLen:
		m.violate("MPA-006", "S=1 with %d octets of private data", f.PDLength)
	}
}

// Flags of a startup frame, RFC 5044 Section 7.1.1 and RFC 6581 Section 6.
const (
	flagR        = 0x20
	flagS        = 0x10
	flagReserved = 0x0f
)

func (m *startup) flags(f *decode.Startup) {
	if f.Flags&flagR != 0 && !f.IsReply {
		m.violate("MPA-007", "flags %#02x", f.Flags)
	}
	if f.Flags&flagReserved != 0 {
		m.violate("MPA-008", "flags %#02x", f.Flags)
	}
	if f.Flags&flagS != 0 && f.Rev == 1 {
		m.violate("MPA-009", "flags %#02x at revision 1", f.Flags)
	}
}

// word judges the enhanced word by itself.
func (m *startup) word(f *decode.Startup) {
	w := &f.Word
	switch {
	case !w.PeerToPeer && w.RTR != 0:
		m.violate("MPA-017", "A=0 with RTR options %v", w.RTR)
	case w.PeerToPeer && w.RTR == 0:
		m.violate("MPA-019", "A=1 without an RTR option")
	case !f.IsReply && !w.PeerToPeer && w.IRD == mpa.NotNegotiated && w.ORD == mpa.NotNegotiated:
		m.violate("MPA-021", "S=1, but neither peer-to-peer nor read depths are asked for")
	}
}

// reply judges a Reply against its Request.
func (m *startup) reply(req, rep *decode.Startup) {
	if req.Rev >= 2 && rep.Rev >= 2 && req.Enhanced != rep.Enhanced {
		m.violate("MPA-012", "S=%t in the Request, S=%t in the Reply", req.Enhanced, rep.Enhanced)
		return
	}
	if rep.Rejected {
		return
	}
	if rep.Rev > req.Rev {
		m.violate("MPA-013", "revision %d in reply to %d", rep.Rev, req.Rev)
	}
	if req.Enhanced && rep.Enhanced {
		m.depths(&req.Word, &rep.Word)
		if req.Word.PeerToPeer != rep.Word.PeerToPeer {
			m.violate("MPA-018", "A=%t in the Request, A=%t in the Reply", req.Word.PeerToPeer, rep.Word.PeerToPeer)
		}
	}
}

// depths judges the read depths of an accepting Reply (RFC 6581 Section 9.1).
func (m *startup) depths(req, rep *mpa.Enhanced) {
	const none = mpa.NotNegotiated
	switch {
	case req.ORD == none && rep.IRD != none:
		m.violate("MPA-016", "IRD %d in reply to an ORD that is not negotiated", rep.IRD)
	case req.ORD != none && rep.IRD != none && rep.IRD < req.ORD:
		m.violate("MPA-014", "IRD %d in reply to ORD %d", rep.IRD, req.ORD)
	}
	switch {
	case req.IRD == none && rep.ORD != none:
		m.violate("MPA-016", "ORD %d in reply to an IRD that is not negotiated", rep.ORD)
	case req.IRD != none && rep.ORD != none && rep.ORD > req.IRD:
		m.violate("MPA-015", "ORD %d in reply to IRD %d", rep.ORD, req.IRD)
	}
}

// other judges octets in place of a startup frame, or before the Reply.
func (m *startup) other(ev *decode.Event) {
	switch {
	case errors.Is(ev.Err, decode.ErrPartial) && ev.Offset > 0 && keyed(ev.Raw):
		m.violate("MPA-001", "another startup frame, where an FPDU is due")
	case errors.Is(ev.Err, decode.ErrStartup) && m.keyless[ev.Dir]: // said already
	case errors.Is(ev.Err, decode.ErrStartup):
		m.keyless[ev.Dir] = true
		if len(ev.Raw) == 0 { // they were taken for another protocol, and are gone
			m.violate("MPA-003", "no key, and the peer answers by a Reply")
			return
		}
		m.violate("MPA-003", "begins with %x", ev.Raw[:min(len(ev.Raw), len(mpa.RequestKey))])
	case errors.Is(ev.Err, decode.ErrRejected) && !m.after && beginsFPDU(ev.Raw):
		m.after = true
		m.violate("MPA-022", "an FPDU, and the Reply in frame %d rejects the connection", m.info.Reply.At.Frame)
	case errors.Is(ev.Err, decode.ErrNoReply) && ev.Len > 0 && !m.early:
		m.early = true
		m.violate("MPA-010", "%d octets, and no Reply", ev.Len)
	}
}

// keyed reports whether b begins with a key.
func keyed(b []byte) bool {
	return bytes.HasPrefix(b, []byte(mpa.RequestKey)) || bytes.HasPrefix(b, []byte(mpa.ReplyKey))
}

// beginsFPDU reports whether b begins with an FPDU of RDMAP with a right CRC: other octets may follow a rejection, where
// the upper layer goes on with the TCP connection (RFC 5044 Section 7.1.2).
func beginsFPDU(b []byte) bool {
	d := mpa.Deframer{CRC: true}
	ulpdu, _, err := d.Next(b)
	if err != nil || len(ulpdu) == 0 {
		return false
	}
	return new(ddp.Segment).Parse(ulpdu)
}

// order judges who sends the first FPDU, and what it is.
func (m *startup) order(ev *decode.Event) {
	if ev.Dir != m.info.Initiator {
		switch {
		case m.fpdus[ev.Dir] > 0 || m.doubt[1-ev.Dir] || m.firstFPDU != 0 && !m.before(ev, m.firstFPDU):
		case m.held > 0: // its frames are not where they should be
			m.violateBy(1-ev.Dir, "MPA-010", "%d octets, and the Reply is in frame %d", m.held, m.info.Reply.At.Frame)
		default:
			m.violate("MPA-011", "its first FPDU, while the initiator has sent none")
		}
		return
	}
	if m.firstFPDU != 0 {
		return
	}
	m.firstFPDU = ev.Frame
	if rep := m.info.Reply; rep != nil && m.before(ev, rep.At.Frame) {
		m.violate("MPA-010", "an FPDU, and the Reply is in frame %d", rep.At.Frame)
	}
	m.rtr(ev)
}

// before reports whether a frame began before packet n, as far as the order of the packets shows.
func (m *startup) before(ev *decode.Event, n int) bool {
	return ev.First < n && m.info.Unknown&decode.UnknownOrder == 0
}

// rtr judges the first FPDU of the initiator of a peer-to-peer connection.
func (m *startup) rtr(ev *decode.Event) {
	req, rep := m.info.Request, m.info.Reply
	if rep == nil || m.doubt[ev.Dir] || ev.DDP == nil || ev.RDMAP.Op == verbs.OpTerminate ||
		!req.Enhanced || !rep.Enhanced || !req.Word.PeerToPeer || !rep.Word.PeerToPeer {
		return
	}
	if rep.Word.RTR&rtrKind(ev) == 0 {
		m.violate("MPA-020", "%v of %d octets, offered: %v", ev.RDMAP.Op, len(ev.DDP.Payload), rep.Word.RTR)
	}
}

// rtrKind returns which RTR message a frame is, 0 for none.
func rtrKind(ev *decode.Event) mpa.RTR {
	empty := ev.DDP.Last && len(ev.DDP.Payload) == 0
	switch ev.RDMAP.Op {
	case verbs.OpSend:
		if empty {
			return mpa.RTRSend
		}
	case verbs.OpWrite:
		if empty {
			return mpa.RTRWrite
		}
	case verbs.OpReadRequest:
		if ev.Message != nil && ev.Message.Read != nil && ev.Message.Read.Size == 0 {
			return mpa.RTRRead
		}
	default:
	}
	return 0
}

// framing judges single FPDUs: length, pad, CRC (RFC 5044 Section 4).
type framing struct{ *conn }

func (m *framing) event(ev *decode.Event) {
	f := ev.FPDU
	if f == nil {
		return
	}
	if f.CRCState == decode.CRCBad && !errors.Is(ev.Err, decode.ErrMarkers) {
		m.violate("MPA-030", "CRC %08x does not match the FPDU of %d octets", f.CRC, ev.Len)
		return
	}
	if n := len(f.ULPDU); n > mpa.MaxULPDU {
		m.violate("MPA-032", "ULPDU of %d octets", n)
	}
	for _, b := range f.Pad {
		if b != 0 {
			m.violate("MPA-031", "pad %x", f.Pad)
			break
		}
	}
}

func (m *framing) end() {}

// markers judges the markers of the FPDUs of a connection that has some (RFC 5044 Section 4.3).
type markers struct {
	*conn
	from [2]uint64 // stream offset of the first octet of full operation
}

// markerStride is the distance from one marker to the next, in octets, including the marker.
const markerStride = 512

func (m *markers) event(ev *decode.Event) {
	switch {
	case ev.Kind == decode.KindStartup:
		m.from[ev.Dir] = ev.Offset + uint64(ev.Len)
	case ev.FPDU != nil && errors.Is(ev.Err, decode.ErrMarkers):
		m.violate("MPA-040", "%v", ev.Err)
		m.lose(ev.Dir)
	case ev.FPDU != nil && ev.FPDU.Markers > 0 && m.found == 0:
		m.reserved(ev)
	}
}

// reserved judges the reserved halves of an FPDU's markers.
func (m *markers) reserved(ev *decode.Event) {
	at := (markerStride - int((ev.Offset-m.from[ev.Dir])%markerStride)) % markerStride
	for ; at+4 <= len(ev.Raw); at += markerStride {
		if v := binary.BigEndian.Uint16(ev.Raw[at:]); v != 0 {
			m.violate("MPA-041", "%#04x in the marker at octet %d", v, at)
			return
		}
	}
}

func (m *markers) end() {}

// ending judges where a side ends its stream (RFC 5044 Section 8).
type ending struct {
	*conn
	left [2]int // octets of an incomplete frame, reported right before the end of the stream
}

func (m *ending) event(ev *decode.Event) {
	switch {
	case m.info.Request == nil: // another protocol may begin with the octets of a key
	case ev.Kind == decode.KindUndecoded && errors.Is(ev.Err, decode.ErrPartial):
		m.left[ev.Dir] = ev.Len
	case ev.Kind == decode.KindClose && !ev.Reset && m.left[ev.Dir] > 0:
		m.cut(ev)
	default: // a hole in the capture cut it
		m.left[ev.Dir] = 0
	}
}

// cut reports a FIN inside a frame.
func (m *ending) cut(ev *decode.Event) {
	if m.left[ev.Dir] == markerLen && m.marked(ev.Dir) {
		m.violate("MPA-042", "four octets after the last FPDU")
		return
	}
	m.violate("MPA-033", "FIN after %d octets of an incomplete frame", m.left[ev.Dir])
}

const markerLen = 4

// marked reports whether a direction has markers, because its receiver asked for them.
func (m *ending) marked(dir decode.Dir) bool {
	f := m.info.Request
	if dir == m.info.Initiator {
		f = m.info.Reply
	}
	return f != nil && f.Markers
}

func (m *ending) end() {}

// resent withdraws what was found in an FPDU whose octets TCP has sent again with other contents, if those make it
// right: damage on the way to the capture, or a retransmission that a middlebox has rewritten. What the
// receiver took is unknown.
type resent struct {
	*conn
	sides [2]resentSide
}

// resentSide is one direction: the last FPDU that was found wrong, and the last octets that were sent twice.
type resentSide struct {
	wrong   []*Violation
	raw     []byte
	at      uint64
	again   []byte
	againAt uint64
}

func (m *resent) event(ev *decode.Event) {
	s := &m.sides[ev.Dir]
	if ev.Again != nil {
		s.again, s.againAt = append(s.again[:0], ev.Again...), ev.Offset
	}
	if ev.Kind == decode.KindFPDU && len(m.fold.now) > 0 {
		s.wrong = nil
		for _, v := range m.fold.now {
			if v.Dir == ev.Dir && !v.Rule.is(acceptance) {
				s.wrong = append(s.wrong, v)
			}
		}
		s.raw, s.at = append(s.raw[:0], ev.Raw...), ev.Offset
	}
	if len(s.wrong) > 0 && s.right(m.info.CRC) {
		for _, v := range s.wrong {
			m.withdraw(v)
		}
		s.wrong = nil
	}
}

func (m *resent) end() {}

// right reports whether the octets that were sent again change the wrong FPDU, and its CRC is right with them or means
// nothing.
func (s *resentSide) right(crc bool) bool {
	from, to := max(s.at, s.againAt), min(s.at+uint64(len(s.raw)), s.againAt+uint64(len(s.again)))
	if from >= to {
		return false
	}
	b := bytes.Clone(s.raw)
	copy(b[from-s.at:to-s.at], s.again[from-s.againAt:])
	if bytes.Equal(b, s.raw) {
		return false
	}
	return !crc || len(b) > mpa.CRCLen && mpa.ReadCRC(b[len(b)-mpa.CRCLen:]) == mpa.UpdateCRC(0, b[:len(b)-mpa.CRCLen])
}

// withdraw takes a violation back, and what followed from it.
func (c *conn) withdraw(v *Violation) {
	if v.Withdrawn {
		return
	}
	v.Withdrawn = true
	if v.accepted != nil {
		c.withdraw(v.accepted)
	}
	if c.j.withdrawn != nil {
		c.j.withdrawn(v)
	}
}

// withdrawn takes a violation out of the report.
func (b *Builder) withdrawn(v *Violation) {
	if v.Cause != nil {
		return
	}
	b.remove(v)
	why := "the octets were sent again, and are right then"
	if v.Conn.Carrier != decode.CarrierTCP {
		why = "packets before it are, or may be, missing from the capture"
	}
	b.unknown(b.conn(v.Conn), fmt.Sprintf("frame %d %v: whether %s is broken: %s", v.Frame, v.Dir, v.Rule.ID, why))
}
