package judge

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
)

// reads judges the requests of queue 1 (Read, Atomic, Flush, Verify, Atomic Write) and their
// responses: number outstanding, order, and what is returned (RFC 5040 Sections 4.5, 5.5, 6.1, RFC 7306).
//
// A capture shows a response before the requester knows of it, so wherever the capture was made, the number
// of outstanding requests in it is at most the real one.
type reads struct {
	*conn
	sides [2]requester
	deep  [2]bool // this direction has exceeded its depth, and that was reported
}

// requester is one direction of requests, and the responses to them from the other.
type requester struct {
	out  []request // outstanding, oldest first
	got  uint64    // octets of the Read Response in progress
	skip bool      // the Read Response in progress was reported; the rest of it is not judged
	off  bool      // the outstanding requests are unknown
}

// request is one request of queue 1.
type request struct {
	op   verbs.Opcode
	read decode.ReadRequest
	id   uint32 // of an Atomic Request
	hash []byte // expected by a Verify Request; nil: none
}

func (m *reads) event(ev *decode.Event) {
	if m.doubt[ev.Dir] {
		m.sides[0], m.sides[1] = requester{off: true}, requester{off: true}
	}
	if ev.RDMAP == nil || m.sides[0].off {
		return
	}
	switch {
	case ev.RDMAP.Op == verbs.OpReadResponse:
		m.readResponse(ev, &m.sides[1-ev.Dir])
	case ev.Message == nil:
	case ev.Message.QN == queueRequests:
		m.request(ev, &m.sides[ev.Dir])
	case ev.Message.QN == queueResponses:
		m.response(ev, &m.sides[1-ev.Dir])
	}
}

func (m *reads) end() {}

// Queues of RFC 5040 Section 3.1 and RFC 7306 Section 10.2.
const (
	queueRequests  = 1
	queueResponses = 3
)

// request takes a request.
func (m *reads) request(ev *decode.Event, s *requester) {
	r := request{op: ev.Message.Op}
	switch x := ev.Message.Extension; {
	case ev.Message.Read != nil:
		r.read = *ev.Message.Read
	case x == nil:
		s.off = true
		return
	case r.op == verbs.OpAtomicRequest:
		r.id = x.ID
	case r.op == verbs.OpVerifyRequest && len(x.Data) > 0:
		r.hash = bytes.Clone(x.Data[:min(len(x.Data), maxHash)])
	}
	s.out = append(s.out, r)
	if limit, ok := m.depth(ev.Dir); ok && len(s.out) > limit && !m.deep[ev.Dir] {
		m.deep[ev.Dir] = true
		m.accuse("RDMAP-036", "%d requests outstanding, agreed: %d", len(s.out), limit)
	}
	if len(s.out) > m.j.opt.MaxRequests {
		*s = requester{off: true}
	}
}

// depth returns how many requests a direction may have outstanding, if the startup shows it.
func (m *reads) depth(dir decode.Dir) (limit int, ok bool) {
	req, rep := m.info.Request, m.info.Reply
	if req == nil || rep == nil || !req.Enhanced || !rep.Enhanced {
		return 0, false
	}
	// RFC 6581 Section 9.1: the responder announces what it has set; the initiator adapts.
	depths := []uint16{rep.Word.IRD}
	if dir != m.info.Initiator {
		depths = []uint16{rep.Word.ORD, req.Word.IRD}
	}
	depths = slices.DeleteFunc(depths, func(d uint16) bool { return d == mpa.NotNegotiated })
	if len(depths) == 0 {
		return 0, false
	}
	return int(slices.Min(depths)), true
}

// pop removes the oldest request.
func (s *requester) pop() {
	s.out = slices.Delete(s.out, 0, 1)
	s.got = 0
}

// readResponse takes a segment of a Read Response.
func (m *reads) readResponse(ev *decode.Event, s *requester) {
	d := ev.DDP
	if s.skip {
		s.skip = !d.Last
		return
	}
	if len(s.out) == 0 {
		m.accuse("RDMAP-030", "Read Response to STag %v, but no Read is outstanding", d.STag)
		s.skip = !d.Last
		return
	}
	if i := s.reading(d); i != 0 {
		m.misplaced(d, s, i)
		s.skip = !d.Last
		return
	}
	r, n := &s.out[0].read, uint64(len(d.Payload))
	if n > 0 && (d.TO < r.SinkTO || d.TO-r.SinkTO+n > uint64(r.Size)) {
		m.accuse("RDMAP-033", "%d octets at TO %#x, asked for: %d at %#x", n, d.TO, r.Size, r.SinkTO)
	}
	s.got += n
	if d.Last {
		if s.got != uint64(r.Size) {
			m.accuse("RDMAP-034", "%d octets, asked for: %d", s.got, r.Size)
		}
		s.pop()
	}
}

// reading returns the index of the request that a segment of a Read Response may answer: the oldest Read
// with its sink STag, or the oldest request if nothing speaks against it; -1 for none. STag and TO of a segment without
// payload mean nothing (RFC 5041 Section 5.2).
func (s *requester) reading(d *decode.DDP) int {
	return slices.IndexFunc(s.out, func(r request) bool {
		return r.op == verbs.OpReadRequest && (len(d.Payload) == 0 || r.read.SinkSTag == d.STag)
	})
}

// misplaced reports a Read Response that answers not the oldest request, but the one with index i, or none.
func (m *reads) misplaced(d *decode.DDP, s *requester, i int) {
	if i > 0 {
		m.accuse("RDMAP-031", "Read Response to STag %v, but a %v is older than its Request", d.STag, s.out[0].op)
		s.out = slices.Delete(s.out, i, i+1)
		return
	}
	if s.out[0].op != verbs.OpReadRequest {
		m.accuse("RDMAP-030", "Read Response to STag %v, but no Read is outstanding", d.STag)
		return
	}
	m.accuse("RDMAP-032", "STag %v, asked for: %v", d.STag, s.out[0].read.SinkSTag)
	s.pop()
}

// responseTo says which request a message of queue 3 answers.
var responseTo = map[verbs.Opcode]verbs.Opcode{
	verbs.OpAtomicResponse:      verbs.OpAtomicRequest,
	verbs.OpFlushResponse:       verbs.OpFlushRequest,
	verbs.OpVerifyResponse:      verbs.OpVerifyRequest,
	verbs.OpAtomicWriteResponse: verbs.OpAtomicWriteRequest,
}

// response takes a message of queue 3.
func (m *reads) response(ev *decode.Event, s *requester) {
	op := responseTo[ev.Message.Op]
	i := slices.IndexFunc(s.out, func(r request) bool { return r.op == op })
	switch {
	case i < 0:
		m.accuse("RDMAP-030", "%v, but no %v is outstanding", ev.Message.Op, op)
		return
	case i > 0:
		m.accuse("RDMAP-031", "%v, but a %v is older than its request", ev.Message.Op, s.out[0].op)
	default:
		m.answer(ev, &s.out[0])
	}
	s.out = slices.Delete(s.out, i, i+1)
}

// answer judges what a response of queue 3 says.
func (m *reads) answer(ev *decode.Event, r *request) {
	x := ev.Message.Extension
	switch {
	case x == nil:
	case r.op == verbs.OpAtomicRequest && x.ID != r.id:
		m.accuse("RDMAP-035", "identifier %d, asked for: %d", x.ID, r.id)
	case r.op == verbs.OpVerifyRequest && r.hash != nil && !bytes.Equal(x.Data, r.hash):
		m.accuse("RDMAP-037", "hash %x, expected: %x", x.Data, r.hash)
	}
}

// stags judges the life of STags as far as remote invalidation shows it (RFC 5040 Section 5.3): after a Send
// with Invalidate nobody uses the STag until its owner may have advertised it again.
//
// Only for RPC-over-RDMA is it known what the upper layer advertises. On other connections every message of
// the owner may advertise anything, so it ends what is known about the owner's STags.
type stags struct {
	*conn
	dead [2]tags // by the direction of the owner
}

// tags is a bounded set of STags, with the packets that invalidated them.
type tags struct {
	at    map[ddp.STag]int
	order []ddp.STag // oldest first; may hold some that at no longer has
}

func (m *stags) event(ev *decode.Event) {
	switch {
	case ev.Kind == decode.KindUndecoded || m.lost[ev.Dir]:
		m.dead[ev.Dir] = tags{}
	case ev.RDMAP == nil || ev.FPDU != nil && ev.FPDU.CRCState == decode.CRCBad:
	default:
		m.use(ev)
		m.advertise(ev)
		if msg := ev.Message; msg != nil && msg.Op.Invalidates() {
			m.invalidate(ev)
		}
	}
}

func (m *stags) end() {}

// use judges the STags of the peer that a segment or a request names.
func (m *stags) use(ev *decode.Event) {
	if ev.DDP.Tagged {
		if len(ev.DDP.Payload) > 0 {
			m.used(ev, ev.DDP.STag)
		}
		return
	}
	switch msg := ev.Message; {
	case msg == nil || msg.QN != queueRequests:
	case msg.Read != nil && msg.Read.Size > 0:
		m.used(ev, msg.Read.SourceSTag)
	case msg.Extension != nil && (msg.Op == verbs.OpAtomicRequest || msg.Extension.Len > 0):
		m.used(ev, msg.Extension.STag)
	}
}

// used judges one.
func (m *stags) used(ev *decode.Event, tag ddp.STag) {
	if frame, ok := m.dead[1-ev.Dir].at[tag]; ok && m.found == 0 {
		m.violateAfter(m.rpc.unwritten(ev), ev.Dir, "RDMAP-040", "STag %v, invalidated in frame %d", tag, frame)
	}
}

// advertise records the sender's own STags that a message makes valid again.
func (m *stags) advertise(ev *decode.Event) {
	own := &m.dead[ev.Dir]
	if len(own.at) == 0 {
		return
	}
	switch {
	case ev.Message != nil && ev.Message.Read != nil:
		delete(own.at, ev.Message.Read.SinkSTag)
	case m.info.ULP == decode.ULPRPCRDMA && ev.Header != nil:
		own.listed(&ev.Header.Lists)
	case m.info.ULP == decode.ULPRPCRDMA && ev.DDP.Tagged: // data of the ULP's own messages
	case ev.DDP.Tagged || ev.DDP.QN == ddp.QNSend:
		*own = tags{}
	}
}

// listed removes the STags that chunk lists advertise.
func (t *tags) listed(l *chunks.Lists) {
	for _, s := range l.Read {
		delete(t.at, ddp.STag(s.Handle))
	}
	for _, w := range l.Write {
		for _, s := range w {
			delete(t.at, ddp.STag(s.Handle))
		}
	}
	for _, s := range l.Reply {
		delete(t.at, ddp.STag(s.Handle))
	}
}

// invalidate takes a Send with Invalidate.
func (m *stags) invalidate(ev *decode.Event) {
	t, tag := &m.dead[1-ev.Dir], ev.RDMAP.Invalidate
	if frame, ok := t.at[tag]; ok {
		m.accuse("RDMAP-041", "STag %v, invalidated in frame %d", tag, frame)
	}
	t.add(tag, ev.Frame, m.j.opt.MaxSTags)
}

// add enters an STag; if there are more than limit, the oldest is forgotten.
func (t *tags) add(tag ddp.STag, frame, limit int) {
	if t.at == nil {
		t.at = make(map[ddp.STag]int)
	}
	if _, ok := t.at[tag]; !ok {
		t.order = append(t.order, tag)
	}
	t.at[tag] = frame
	for len(t.order) > limit {
		delete(t.at, t.order[0])
		t.order = t.order[1:]
	}
}

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
