package judge

import (
	"bytes"
	"slices"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
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
