package judge

import (
	"math"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rdmap/ddp"
)

// queues judges how the segments of one direction form messages: MSN, MO, TO, and the fields that must be
// the same in all segments of a message (RFC 5041 Section 5).
type queues struct {
	*conn
	sides [2]sideQueues
}

// sideQueues is one direction.
type sideQueues struct {
	q      [ddp.NumQueues]untagged
	tagged tagged
	open   int // number of the queue with an open message, plus one; 0: none
}

// untagged is one queue: the message in progress, or what the next one has to be.
type untagged struct {
	begun   bool // next is known from earlier segments, not only from RFC 5041
	next    uint32
	open    bool
	mo      uint64 // octets of the open message so far
	control uint8
	ulp     uint32
	wrong   *Violation // found in the segment before, of whatever message
}

// tagged is the open tagged message.
type tagged struct {
	open    bool
	to      uint64 // after its last octet
	length  uint64
	control uint8
	stag    ddp.STag
}

func (m *queues) event(ev *decode.Event) {
	s := &m.sides[ev.Dir]
	switch {
	case ev.Kind == decode.KindUndecoded || m.lost[ev.Dir] || ev.FPDU != nil && ev.FPDU.CRCState == decode.CRCBad:
		*s = sideQueues{} // what comes next is unknown
	case ev.Kind == decode.KindClose:
		m.closing(s)
	case ev.DDP == nil:
	case ev.DDP.Tagged:
		m.tagged(ev, &s.tagged)
	default:
		m.untagged(ev, s)
	}
}

func (m *queues) end() {}

// closing judges a FIN in the middle of a message. A Terminate ends messages too.
func (m *queues) closing(s *sideQueues) {
	if (s.open > 0 || s.tagged.open) && !m.reset && !m.term[0] && !m.term[1] {
		m.violate("DDP-012", "FIN, but the L segment of a message is missing")
	}
}

// untagged takes a segment of an untagged message.
func (m *queues) untagged(ev *decode.Event, s *sideQueues) {
	d, q := ev.DDP, &s.q[ev.DDP.QN]
	msn := d.MSN
	if !q.begun && !q.open && !m.doubt[ev.Dir] {
		q.begun, q.next = true, ddp.FirstMSN
	}
	before := q.wrong
	q.wrong = nil
	wrong := func(id, format string, args ...any) { // the segment after a wrong one differs from it
		q.wrong = m.violateAfter(before, ev.Dir, id, format, args...)
	}
	switch {
	case s.open > 0 && s.open != int(d.QN)+1:
		wrong("DDP-011", "queue %d, but a message of queue %d is open", d.QN, s.open-1)
		s.q[s.open-1].open = false
	case q.open && d.MSN != q.next && d.MO != 0 && uint64(d.MO) == q.mo:
		wrong("DDP-006", "MSN %d after a segment with MSN %d", d.MSN, q.next)
		msn = q.next
	case q.open && d.MSN != q.next:
		wrong("DDP-011", "MSN %d, but the message before it is open", d.MSN)
		q.begun = false
	case q.open && (d.Control != q.control || d.ULP != q.ulp):
		wrong("DDP-008", "control octet %#02x, STag %08x; before: %#02x, %08x", d.Control, d.ULP, q.control, q.ulp)
	case q.open && uint64(d.MO) != q.mo, !q.open && q.begun && d.MSN == q.next && d.MO != 0:
		m.ahead[ev.Dir] = uint64(d.MO) > q.mo
		wrong("DDP-007", "MO %d, expected %d", d.MO, q.mo)
	case !q.open && q.begun && d.MSN != q.next:
		wrong("DDP-005", "MSN %d on queue %d, expected %d", d.MSN, d.QN, q.next)
	}
	q.take(d, msn)
	s.open = 0
	if q.open {
		s.open = int(d.QN) + 1
	}
	m.long(uint64(d.MO) + uint64(len(d.Payload)))
}

// take updates the queue's state by a segment of the message with the given number, whatever was wrong with
// it.
func (q *untagged) take(d *decode.DDP, msn uint32) {
	q.begun, q.next, q.open = true, msn, !d.Last
	q.control, q.ulp = d.Control, d.ULP
	q.mo = uint64(d.MO) + uint64(len(d.Payload))
	if d.Last {
		q.next, q.mo = msn+1, 0
	}
}

// tagged takes a segment of a tagged message.
func (m *queues) tagged(ev *decode.Event, t *tagged) {
	d := ev.DDP
	n := uint64(len(d.Payload))
	wrong := func(id, format string, args ...any) {
		var before *Violation
		if t.open {
			before = m.fold.last(ev.Dir)
		}
		m.violateAfter(before, ev.Dir, id, format, args...)
	}
	switch {
	case n > 0 && d.TO > math.MaxUint64-(n-1):
		wrong("DDP-010", "TO %#x and %d octets", d.TO, n)
	case t.open && (d.Control != t.control || d.STag != t.stag) && d.TO == t.to:
		wrong("DDP-008", "control octet %#02x, STag %v; before: %#02x, %v", d.Control, d.STag, t.control, t.stag)
	case t.open && (d.Control != t.control || d.STag != t.stag):
		wrong("DDP-011", "%v to STag %v, but a message to STag %v is open", ev.RDMAP.Op, d.STag, t.stag)
		t.length = 0
	case t.open && d.TO != t.to && n > 0:
		wrong("DDP-009", "TO %#x, expected %#x", d.TO, t.to)
	}
	length := t.length + n
	if m.long(length); d.Last {
		length = 0
	}
	*t = tagged{!d.Last, d.TO + n, length, d.Control, d.STag}
}

// long judges the length of a message so far.
func (m *queues) long(n uint64) {
	if n >= m.j.tooLong {
		m.accuse("DDP-013", "%d octets and no end", n)
	}
}
