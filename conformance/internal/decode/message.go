package decode

import (
	"encoding/binary"
	"fmt"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// Message is a whole untagged DDP message (RFC 5041 Section 5), put together from its segments.
type Message struct {
	Op       verbs.Opcode
	QN, MSN  uint32
	Payload  []byte // all octets of the message
	Segments int    // FPDUs it came in
	First    int    // packet in which its first segment began

	Read      *ReadRequest     // of an RDMA Read Request
	Terminate *verbs.Terminate // of a Terminate
	Extension *Extension       // of an opcode of RFC 7306 or of the commit draft
}

// ReadRequest is the header of an RDMA Read Request (RFC 5040 Section 4.4):
//
//	0   4  Data Sink STag
//	4   8  Data Sink TO
//	12  4  RDMA Read Message Size, octets
//	16  4  Data Source STag
//	20  8  Data Source TO
type ReadRequest struct {
	SinkSTag   ddp.STag
	SinkTO     uint64
	Size       uint32
	SourceSTag ddp.STag
	SourceTO   uint64
}

// readRequestLen is the length of a Read Request's header in octets.
const readRequestLen = 28

// parse reads the header at the start of b; ok is false when b is too short.
func (r *ReadRequest) parse(b []byte) (ok bool) {
	if len(b) < readRequestLen {
		return false
	}
	be := binary.BigEndian
	r.SinkSTag, r.SinkTO, r.Size = ddp.STag(be.Uint32(b)), be.Uint64(b[4:]), be.Uint32(b[12:])
	r.SourceSTag, r.SourceTO = ddp.STag(be.Uint32(b[16:])), be.Uint64(b[20:])
	return true
}

// assembly is an untagged queue of one direction: the message in progress, if any.
type assembly struct {
	missed  bool   // octets of the queue are not in the capture: the next MSN is unknown
	started bool   // last is valid
	last    uint32 // MSN of the message that began last
	open    bool   // segments of that message have come, but not its L segment
	op      verbs.Opcode
	buf     []byte
	segs    int
	first   int // packet
}

// untagged handles a segment of an untagged message whose opcode belongs on its queue, 0 to 3.
func (c *Conn) untagged(ev *Event) {
	q := &c.sides[ev.Dir].queues[ev.DDP.QN]
	if err := q.begin(ev); err != nil {
		ev.fail(err)
		if !q.open {
			return
		}
	}
	if uint64(len(q.buf))+uint64(len(ev.DDP.Payload)) > uint64(c.opt.MaxMessage) {
		ev.fail(fmt.Errorf("%w: more than %d octets", ErrTooLong, c.opt.MaxMessage))
		q.open, q.buf = false, nil
		return
	}
	q.segs++
	if !ev.DDP.Last {
		q.buf = append(q.buf, ev.DDP.Payload...)
		return
	}
	m := &Message{Op: q.op, QN: ev.DDP.QN, MSN: q.last, Payload: ev.DDP.Payload, Segments: q.segs, First: q.first}
	if len(q.buf) > 0 {
		m.Payload = append(q.buf, ev.DDP.Payload...)
		q.buf = m.Payload[:0]
	}
	q.open = false
	ev.Message = m
	c.message(ev)
}

// begin checks that a segment continues the message in progress, or opens the next one. After an error
// q.open says whether the segment can still be used.
func (q *assembly) begin(ev *Event) error {
	d := ev.DDP
	if q.open && d.MSN == q.last && ev.RDMAP.Op == q.op && int64(d.MO) == int64(len(q.buf)) {
		return nil
	}
	unfinished := q.open
	q.open, q.segs, q.buf = false, 0, q.buf[:0]
	if d.MO != 0 && q.missed {
		return fmt.Errorf("%w: message %d", ErrUnseen, d.MSN)
	}
	if d.MO != 0 {
		return fmt.Errorf("%w: MO %d does not continue a message", ErrOrder, d.MO)
	}
	want := uint32(ddp.FirstMSN)
	switch {
	case q.missed:
		want, q.missed = d.MSN, false
	case q.started:
		want = q.last + 1
	}
	q.started, q.open = true, true
	q.last, q.op, q.first = d.MSN, ev.RDMAP.Op, ev.First
	switch {
	case unfinished:
		return fmt.Errorf("%w: the message before it is not finished", ErrOrder)
	case d.MSN != want:
		return fmt.Errorf("%w: MSN %d, expected %d", ErrOrder, d.MSN, want)
	}
	return nil
}

// message decodes a whole message.
func (c *Conn) message(ev *Event) {
	m := ev.Message
	switch {
	case m.Op.IsSend():
		c.send(ev)
	case m.Op == verbs.OpReadRequest:
		r := new(ReadRequest)
		if !r.parse(m.Payload) {
			ev.fail(fmt.Errorf("%w: Read Request of %d octets", ErrShort, len(m.Payload)))
			return
		}
		m.Read = r
		c.rpc.readRequest(ev)
	case m.Op == verbs.OpTerminate:
		t, err := verbs.ParseTerminate(m.Payload)
		if err != nil {
			ev.fail(fmt.Errorf("%w: %w", ErrShort, err))
		}
		m.Terminate = &t
	case m.Op >= verbs.OpImmediate:
		m.Extension = new(Extension)
		if !m.Extension.parse(m.Op, m.Payload) {
			m.Extension = nil
			ev.fail(fmt.Errorf("%w: %v of %d octets", ErrShort, m.Op, len(m.Payload)))
		}
	}
}
