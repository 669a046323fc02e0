package judge

import (
	"encoding/binary"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
)

// accepts judges receivers. After an FPDU with a wrong CRC, a DDP segment with a wrong version, queue, MSN or MO, or
// without a whole header, an RDMAP message of a wrong version, opcode or queue, or one that names an invalid STag, a receiver ends the stream (RFC 5044
// Section 8, RFC 5041 Section 7, RFC 5040 Section 7). One that answers something that came in that frame or after it
// has carried on. An acknowledgement of TCP proves nothing.
type accepts struct {
	*conn
	sides [2]accepted // by the direction of the wrong frame
}

// accepted is what the peer of one direction has to answer for.
type accepted struct {
	wrong *Violation
	rule  string
	done  bool // reported, or never to be known

	xids    map[uint32]bool        // of calls in the wrong frame and after it
	handles map[chunks.Handle]bool // that these calls offer
	reads   int                    // Read Requests in the wrong frame and after it
	before  int                    // Read Requests that were unanswered when it came
	allowed int                    // calls of the peer that replies before it allow
}

// maxAccepted bounds the calls and the memory that are remembered.
const maxAccepted = 4096

// receiverRule says which rule a receiver breaks that carries on after a breach of another.
var receiverRule = map[string]string{
	"MPA-030": "MPA-034", "DDP-002": "DDP-014", "DDP-004": "DDP-015", "DDP-005": "DDP-016", "DDP-001": "DDP-017", "DDP-007": "DDP-017",
	"RDMAP-001": "RDMAP-007", "RDMAP-003": "RDMAP-007", "RDMAP-004": "RDMAP-007", "RDMAP-005": "RDMAP-007", "RDMAP-040": "RDMAP-042", "RPCRDMA-050": "RDMAP-042", "RPCRDMA-051": "RDMAP-042",
}

func (m *accepts) event(ev *decode.Event) {
	if ev.FPDU == nil {
		return
	}
	m.find(ev)
	for dir := range m.sides {
		switch s := &m.sides[dir]; {
		case s.wrong == nil || s.done || s.wrong.Cause != nil || s.wrong.Withdrawn:
		case decode.Dir(dir) == ev.Dir:
			m.after(ev, s)
		default:
			m.proof(ev, s)
		}
	}
}

func (m *accepts) end() {}

// find looks for a wrong frame among the violations of this event.
func (m *accepts) find(ev *decode.Event) {
	dir := ev.Dir
	s := &m.sides[dir]
	if s.wrong != nil || m.late || m.term[1-dir] {
		return
	}
	for _, v := range m.fold.now {
		rule := receiverRule[v.Rule.ID]
		if rule == "" || v.Dir != dir || v.Cause != nil || v.Rule.Layer() == "RPCRDMA" && !m.neverOffered(ev) {
			continue
		}
		if v.Rule.ID == "DDP-001" && ev.FPDU.CRCState != decode.CRCGood {
			continue // perhaps the frame before it had a wrong length
		}
		if v.Rule.ID == "DDP-007" && !m.ahead[dir] {
			continue // the message is whole, if the receiver takes the octets where they say
		}
		if v.Rule.Layer() == "RPCRDMA" && m.info.Held[1-dir] > 0 {
			continue // perhaps the peer has offered the memory in a frame whose length is wrong
		}
		s.wrong, s.rule, s.done = v, rule, m.was[dir] || m.was[1-dir]
		s.xids, s.handles = make(map[uint32]bool), make(map[chunks.Handle]bool)
		s.before, s.allowed = m.reads.sides[dir].waiting(), m.rpc.sides[1-dir].credit.allowed
		if ev.Message != nil && ev.Message.Read != nil && s.before > 0 {
			s.before-- // the machine below has seen this one already
		}
		return
	}
}

// neverOffered reports whether no message has offered the STag that an event names.
func (m *accepts) neverOffered(ev *decode.Event) bool {
	tag := ev.DDP.STag
	if ev.Message != nil && ev.Message.Read != nil {
		tag = ev.Message.Read.SourceSTag
	}
	owner := &m.rpc.sides[1-ev.Dir]
	return len(owner.mem[chunks.Handle(tag)]) == 0 && !owner.buried && !owner.forgot
}

// waiting returns how many Read Requests are unanswered.
func (s *requester) waiting() (n int) {
	for _, r := range s.out {
		if r.op == verbs.OpReadRequest {
			n++
		}
	}
	return n
}

// after remembers what the sender of the wrong frame asks for in it and after it. Its headers are read here again,
// since nobody else trusts them.
func (m *accepts) after(ev *decode.Event, s *accepted) {
	u := ev.FPDU.ULPDU
	if len(u) < ddp.UntaggedLen || u[0]&0x80 != 0 || binary.BigEndian.Uint32(u[14:]) != 0 {
		return // a tagged segment, or not the first one
	}
	// Where queue and opcode differ, what it asks for is what it turns out to have been answered as.
	op, queue := verbs.Opcode(u[1]&0x0f), binary.BigEndian.Uint32(u[6:])
	if op == verbs.OpReadRequest || queue == queueRequests {
		s.reads++
	}
	if (op.IsSend() || queue == ddp.QNSend) && m.info.ULP == decode.ULPRPCRDMA {
		m.asked(u[ddp.UntaggedLen:], ev.Dir, s)
	}
}

// asked remembers a call.
func (m *accepts) asked(b []byte, dir decode.Dir, s *accepted) {
	var h rpcrdma.Header
	_, err := h.Decode(b, nil)
	if len(b) < 4 || len(s.xids) >= maxAccepted || len(s.handles) >= maxAccepted {
		return
	}
	if err != nil { // an RDMA_ERROR answers it
		h = rpcrdma.Header{XID: binary.BigEndian.Uint32(b)}
	}
	side := &m.rpc.sides[dir]
	if c := side.calls[h.XID]; c != nil && c.frame < s.wrong.Frame {
		return // sent before
	}
	s.xids[h.XID] = true
	fresh := func(all []chunks.Segment) {
		for _, x := range all {
			if len(side.mem[x.Handle]) == 0 || side.mem[x.Handle][0].call.frame >= s.wrong.Frame {
				s.handles[x.Handle] = true
			}
		}
	}
	for _, r := range h.Read {
		fresh([]chunks.Segment{r.Segment})
	}
	for _, w := range h.Write {
		fresh(w)
	}
	fresh(h.Reply)
}

// proof looks for an answer in what the receiver sends.
func (m *accepts) proof(ev *decode.Event, s *accepted) {
	switch {
	case ev.RDMAP == nil || ev.FPDU.CRCState == decode.CRCBad:
	case ev.RDMAP.Op == verbs.OpTerminate:
		s.done = true
	case ev.RDMAP.Op == verbs.OpReadResponse && ev.DDP.Last:
		if s.before--; s.before < 0 && s.reads > 0 {
			m.carriedOn(s, "the Response to an RDMA Read")
		}
	case ev.RDMAP.Op == verbs.OpWrite && len(ev.DDP.Payload) > 0 && s.handles[chunks.Handle(ev.DDP.STag)]:
		m.carriedOn(s, "an RDMA Write for a call")
	case ev.Message != nil && ev.Message.Read != nil && s.handles[chunks.Handle(ev.Message.Read.SourceSTag)]:
		m.carriedOn(s, "an RDMA Read for a call")
	case ev.Header == nil:
	case s.xids[ev.Header.XID]:
		m.carriedOn(s, "the answer to a call")
	case s.allowed > 0 && ev.RPC != nil && ev.RPC.Call != nil && m.rpc.sides[ev.Dir].credit.sent > s.allowed:
		m.carriedOn(s, "a call for which a reply must have granted the credit")
	}
}

// carriedOn reports the receiver.
func (m *accepts) carriedOn(s *accepted, what string) {
	s.done = true
	s.wrong.accepted = m.violate(s.rule, "%s that came in frame %d, which breaks %s, or after it", what, s.wrong.Frame, s.wrong.Rule.ID)
}
