package judge

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// terminates judges Terminate messages: their form, what they quote, and what may come after one
// (RFC 5040 Sections 4.8, 5.4 and 7).
type terminates struct {
	*conn
	followed [2]bool // an FPDU after a Terminate was reported
	sent     [2]headerRing
	badCRC   [2]bool // this direction has sent an FPDU with a bad CRC
	badMkr   [2]bool // or with a bad marker

	at    [2]time.Time // of the Terminate of a direction
	frame [2]int       // in which it came
	noted [2]bool      // this direction went on long after that of its peer, which was reported
}

// goesOn is how long after its peer's Terminate a side may still send. An acknowledgement of TCP is not a
// delivery, so the limit is generous, and to go on is only a note.
const goesOn = time.Second

func (m *terminates) event(ev *decode.Event) {
	if ev.FPDU == nil {
		return
	}
	if m.term[ev.Dir] {
		if !m.followed[ev.Dir] {
			m.followed[ev.Dir] = true
			m.violate("RDMAP-050", "an FPDU after the Terminate")
		}
		return
	}
	if at := m.at[1-ev.Dir]; !at.IsZero() && !m.noted[ev.Dir] && ev.Time.Sub(at) >= goesOn && ev.First > m.frame[1-ev.Dir] {
		m.noted[ev.Dir] = true
		m.violate("RDMAP-062", "%v after the Terminate in frame %d", ev.Time.Sub(at), m.frame[1-ev.Dir])
	}
	m.badCRC[ev.Dir] = m.badCRC[ev.Dir] || ev.FPDU.CRCState == decode.CRCBad
	m.badMkr[ev.Dir] = m.badMkr[ev.Dir] || errors.Is(ev.Err, decode.ErrMarkers)
	if ev.Message != nil && ev.Message.Op == verbs.OpTerminate && !m.lost[ev.Dir] {
		m.terminate(ev)
	}
	if d := ev.DDP; d != nil {
		m.sent[ev.Dir].add(ev.FPDU.ULPDU[:d.HeaderLen()], len(ev.FPDU.ULPDU))
	}
}

func (m *terminates) end() {}

// control is the first word of a Terminate read by RFC 5040 Section 4.8.
type control uint32

const (
	ctlM control = 1 << 15
	ctlD control = 1 << 14
	ctlR control = 1 << 13
	// ctlSiw is where Linux siw on little-endian machines has M, D and R.
	ctlSiw control = 0x7 << 8
	// ctlReserved must be 0.
	ctlReserved control = 0x1fff
)

// terminate judges one Terminate.
func (m *terminates) terminate(ev *decode.Event) {
	m.term[ev.Dir], m.at[ev.Dir], m.frame[ev.Dir] = true, ev.Time, ev.Frame
	b := ev.Message.Payload
	if ev.Message.Segments > 1 {
		m.accuse("RDMAP-051", "%d segments", ev.Message.Segments)
	}
	if len(b) < 4 {
		m.accuse("RDMAP-054", "%d octets", len(b))
		return
	}
	ctl := control(binary.BigEndian.Uint32(b))
	t, err := verbs.ParseTerminate(b)
	if m.siw(ev, ctl, &t) {
		m.accuse("RDMAP-059", "%x: by RFC 5040 %v, by siw %v", b[:4], t.Code, t.Swapped())
	} else {
		m.word(ev, ctl, &t)
		m.parts(b, ctl, &t, err)
	}
	m.quoted(ev, &t)
}

// siw reports whether a Terminate makes sense only in the layout of Linux siw: it has flags in siw's place,
// or its code is undefined or impossible unless layer and type are exchanged.
func (m *terminates) siw(ev *decode.Event, ctl control, t *verbs.Terminate) bool {
	if ctl&ctlSiw != 0 && ctl&(ctlM|ctlD|ctlR) == 0 {
		return true
	}
	s := t.Swapped()
	if s == t.Code || !s.Registered() || ctl&(ctlM|ctlD|ctlR|ctlReserved) != 0 {
		return false
	}
	wrong := !t.Code.Registered() || m.contradiction(ev.Dir, t.Code, t.DDP) != ""
	return wrong && m.contradiction(ev.Dir, s, t.DDP) == ""
}

// word judges the first word.
func (m *terminates) word(ev *decode.Event, ctl control, t *verbs.Terminate) {
	if ctl&ctlReserved != 0 {
		m.violate("RDMAP-053", "%#08x", uint32(ctl))
	}
	switch why := m.contradiction(ev.Dir, t.Code, t.DDP); {
	case !t.Code.Registered():
		m.accuse("RDMAP-052", "0x%x/0x%x/%#02x", t.Code.Layer, t.Code.EType, t.Code.Code)
	case t.Code.Layer == verbs.LayerMPA && (t.Code.Code == mpaClosed || t.Code.Code == mpaStartup):
		m.accuse("RDMAP-061", "%v", t.Code)
	case why != "":
		m.accuse("RDMAP-060", "%v: %s", t.Code, why)
	}
}

// parts judges whether the announced parts are there, and whether the right parts are announced.
func (m *terminates) parts(b []byte, ctl control, t *verbs.Terminate, err error) {
	m.announced(b, ctl, err)
	want, known := partsOf(t)
	if have := ctl & (ctlM | ctlD | ctlR); known && have != want {
		m.accuse("RDMAP-055", "M, D, R are %03b, for %v: %03b", have>>13, t.Code, want>>13)
	}
}

// announced judges the length. Absent parts may be left out or be zero (RFC 5040 says one in Section 4.8 and
// the other in Section 7.1).
func (m *terminates) announced(b []byte, ctl control, err error) {
	if err != nil || ctl&ctlR != 0 && ctl&ctlD == 0 {
		m.accuse("RDMAP-054", "%d octets, M, D, R are %03b", len(b), ctl&(ctlM|ctlD|ctlR)>>13)
		return
	}
	n := 4
	if ctl&(ctlM|ctlD) != 0 {
		n += 2
	}
	if ctl&ctlD != 0 {
		n += headerLen(b[n:])
	}
	if ctl&ctlR != 0 {
		n += fixed[verbs.OpReadRequest].min
	}
	for i := n; i < len(b); i++ {
		if b[i] != 0 {
			m.accuse("RDMAP-054", "%d octets after the parts that M, D, R = %03b announce", len(b)-n, ctl&(ctlM|ctlD|ctlR)>>13)
			return
		}
	}
}

// headerLen returns the length of the DDP header at the start of b.
func headerLen(b []byte) int {
	if len(b) > 0 && b[0]&0x80 != 0 {
		return ddp.TaggedLen
	}
	return ddp.UntaggedLen
}

// partsOf returns which of M, D, R an error sets (RFC 5040 Section 7.1, RFC 7306 Section 8.1), if the
// documents say so.
func partsOf(t *verbs.Terminate) (want control, known bool) {
	switch {
	case t.Code.Layer == verbs.LayerMPA, t.Code.EType == 0:
		return 0, t.Code.Layer == verbs.LayerMPA || t.Code.Layer == verbs.LayerRDMAP
	case t.DDP == nil: // the header may have been missing
		return 0, false
	case t.Code.Layer == verbs.LayerRDMAP && t.Code.EType == 1 && t.DDP[1]&0x0f == uint8(verbs.OpReadRequest):
		return ctlM | ctlD | ctlR, true
	default:
		return ctlM | ctlD, true
	}
}

// quoted judges the DDP header that a Terminate quotes.
func (m *terminates) quoted(ev *decode.Event, t *verbs.Terminate) {
	peer := 1 - ev.Dir
	if t.DDP == nil {
		return
	}
	if s := segment(t.DDP); !s.Tagged && s.QN == ddp.QNTerminate && s.Control&0x0f == uint8(verbs.OpTerminate) {
		m.violate("RDMAP-058", "it quotes the peer's Terminate")
		return
	}
	n, found, all := m.sent[peer].find(t.DDP)
	switch {
	case !found && all && !m.doubt[peer]:
		m.violate("RDMAP-056", "header %x", t.DDP)
	case found && n != int(t.SegLen):
		m.violate("RDMAP-057", "length %d for a segment of %d octets", t.SegLen, n)
	}
}

// segment parses a quoted header.
func segment(b []byte) (s ddp.Segment) {
	s.Parse(b)
	return s
}

// Error codes of MPA in a Terminate.
const (
	mpaClosed  = uint8(mpa.CodeClosed)
	mpaStartup = uint8(mpa.CodeStartup)
	mpaLocal   = uint8(mpa.CodeLocal) // and above: errors of the enhanced setup
)

// contradiction says why the side that sends in direction dir cannot have seen the error that its Terminate
// names. It returns "" if the side can have seen it, or if the trace does not show. header is the DDP header
// that the Terminate quotes, or nil.
func (m *terminates) contradiction(dir decode.Dir, code verbs.TermCode, header []byte) string {
	peer := 1 - dir
	switch {
	case m.late:
		return ""
	case code.Layer == verbs.LayerMPA && code.Code >= mpaLocal:
		if dir != m.info.Initiator || m.fpdus[dir] > 0 {
			return "only the initiator reports this, in its first FPDU"
		}
		return ""
	case code.Layer == verbs.LayerMPA && (code.Code == mpaClosed || code.Code == mpaStartup):
		return "" // RDMAP-061
	case code.Layer == verbs.LayerMPA && !m.badCRC[peer] && !m.badMkr[peer] && !m.doubt[peer]:
		return "all CRCs and markers of the peer are right"
	case code.Layer == verbs.LayerMPA || m.doubt[peer]:
		return ""
	}
	if code.EType == 0 {
		return "" // an error of the side's own
	}
	if m.fpdus[peer] == 0 {
		return "the peer has sent no FPDU"
	}
	if header == nil {
		return ""
	}
	s := segment(header)
	if why := m.sequence(peer, code, &s); why != "" {
		return why
	}
	if code.Layer == verbs.LayerDDP {
		return ddpClaim(code, &s)
	}
	return rdmapClaim(code, &s)
}

// sequence judges errors that are about earlier segments: a peer whose messages all follow each
// other has made none of them.
func (m *terminates) sequence(peer decode.Dir, code verbs.TermCode, s *ddp.Segment) string {
	const untaggedError = 2
	if m.outOfOrder[peer] {
		return ""
	}
	if code.Layer == verbs.LayerRDMAP && code.EType == 2 && code.Code == 0x06 && (s.Tagged && verbs.Opcode(s.Control&0x0f) == verbs.OpWrite ||
		!s.Tagged && s.QN == ddp.QNSend && verbs.Opcode(s.Control&0x0f).IsSend()) {
		return "the opcode quoted is one that every stream has"
	}
	if code.Layer != verbs.LayerDDP || code.EType != untaggedError {
		return ""
	}
	switch code.Code {
	case 0x03:
		return "all MSNs of the peer are right"
	case 0x04:
		return "all MOs of the peer are right"
	}
	return ""
}

// ddpClaim judges the errors of DDP by the header that is said to have caused them.
func ddpClaim(code verbs.TermCode, s *ddp.Segment) string {
	const taggedError, untaggedError = 1, 2
	switch {
	case code.EType == taggedError && !s.Tagged, code.EType == untaggedError && s.Tagged:
		return "the header quoted is of the other kind"
	case code.EType == taggedError && code.Code == 0x04, code.EType == untaggedError && code.Code == 0x06:
		if s.DV == ddp.Version {
			return "the version quoted is 1"
		}
	case code.EType == taggedError && code.Code == 0x03 && s.TO <= 1<<63:
		return "the TO quoted is far from 2^64"
	case code.EType == untaggedError && code.Code == 0x01 && s.QN < queueResponses:
		return "the queue quoted is one that every stream has"
	}
	return ""
}

// rdmapClaim judges the errors of RDMAP.
func rdmapClaim(code verbs.TermCode, s *ddp.Segment) string {
	const protection, operation = 1, 2
	op := verbs.Opcode(s.Control & 0x0f)
	switch {
	case code.EType == operation && code.Code == 0x05 && s.Control>>6 == 1:
		return "the version quoted is 1"
	case code.Code == 0x09 && !op.Invalidates():
		return "the message quoted invalidates nothing"
	case code.EType == protection && code.Code < 0x09 && (s.Tagged || op.IsSend() && s.QN == ddp.QNSend):
		return "the message quoted reads no memory"
	}
	return ""
}
