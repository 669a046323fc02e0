package judge

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"slices"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// headers judges the headers of DDP and RDMAP by themselves, one segment at a time (RFC 5041
// Section 4, RFC 5040 Section 4.1), in the order in which an engine looks at them.
type headers struct {
	*conn
	drafted [2]bool // this direction uses opcodes of the commit draft that were not agreed on, which was reported
}

func (m *headers) event(ev *decode.Event) {
	if ev.FPDU == nil || ev.FPDU.CRCState == decode.CRCBad || m.lost[ev.Dir] {
		return
	}
	if ev.DDP == nil {
		m.fatal("DDP-001", "ULPDU of %d octets", len(ev.FPDU.ULPDU))
		return
	}
	d := ev.DDP
	if r := ev.FPDU.ULPDU[0] & reservedDDP; r != 0 {
		m.violate("DDP-003", "reserved bits %#02x", r)
	}
	switch {
	case d.DV != ddp.Version:
		m.fatal("DDP-002", "version %d", d.DV)
	case !d.Tagged && d.QN >= ddp.NumQueues:
		m.fatal("DDP-004", "queue %d", d.QN)
	default:
		m.rdmap(ev)
	}
}

func (m *headers) end() {}

// reservedDDP are the reserved bits of the DDP control octet.
const reservedDDP = 0x3c

// Bits of the RDMAP control octet that are reserved in RFC 5040. The second is part of the opcode in the
// commit draft, which sets it in untagged messages only.
const (
	reservedRDMAP  = 0x20
	reservedOpcode = 0x10
)

// rdmap judges the fields of RDMAP in the header.
func (m *headers) rdmap(ev *decode.Event) {
	d, r := ev.DDP, ev.RDMAP
	reserved := uint8(reservedRDMAP)
	if d.Tagged {
		reserved |= reservedOpcode
	}
	if d.Control&reserved != 0 {
		m.violate("RDMAP-002", "control octet %#02x", d.Control)
	}
	switch {
	case r.Version != 1:
		m.fatal("RDMAP-001", "version %d", r.Version)
	case r.Op > verbs.OpAtomicWriteResponse:
		m.fatal("RDMAP-003", "%v", r.Op)
	case r.Op.Tagged() != d.Tagged:
		m.fatal("RDMAP-004", "%v, tagged: %t", r.Op, d.Tagged)
	case !d.Tagged && r.Op.Queue() != d.QN:
		m.fatal("RDMAP-005", "%v on queue %d", r.Op, d.QN)
	case r.Op >= verbs.OpFlushRequest && !m.drafted[ev.Dir] && m.uncommitted():
		m.drafted[ev.Dir] = true
		m.violate("RDMAP-008", "%v", r.Op)
	case !d.Tagged && d.ULP != 0 && !r.Op.Invalidates() && r.Op < verbs.OpFlushRequest:
		m.violate("RDMAP-006", "%08x in a %v", d.ULP, r.Op)
	}
}

// uncommitted reports whether the startup shows that the sides have not agreed to use the commit draft. The draft
// has no negotiation of its own; stag engines offer it in their private data.
func (m *headers) uncommitted() bool {
	req, rep := m.info.Request, m.info.Reply
	if m.late || req == nil || rep == nil || m.info.Commit != nil || m.info.ULP == decode.ULPCommit {
		return false
	}
	offers := func(f *decode.Startup) bool { return f.Stag != nil && f.Stag.Extensions&verbs.ExtCommit != 0 }
	return !offers(req) || !offers(rep)
}

// fatal reports a header that makes the frame unusable and puts the direction in doubt.
func (m *headers) fatal(id, format string, args ...any) {
	m.violate(id, format, args...)
	m.lose(m.ev.Dir)
}

// headerRing remembers the last DDP headers that a direction has sent, to find the header that a Terminate
// quotes. It takes 32 KiB when full.
type headerRing struct {
	entries []uint64 // high 48 bits: of the header's hash; low 16: length of its ULPDU
	next    int      // where the next goes once entries is full
}

const maxHeaders = 4096

var headerSeed = maphash.MakeSeed()

func headerHash(header []byte) uint64 { return maphash.Bytes(headerSeed, header) &^ 0xffff }

// add remembers the header of a ULPDU of n octets.
func (r *headerRing) add(header []byte, n int) {
	e := headerHash(header) | uint64(n)&0xffff
	if len(r.entries) < maxHeaders {
		r.entries = append(r.entries, e)
		return
	}
	r.entries[r.next] = e
	r.next = (r.next + 1) % maxHeaders
}

// find returns the length of the ULPDU that had the header, the youngest if there were several. With all,
// nothing has been forgotten: a header that is not found was never sent.
func (r *headerRing) find(header []byte) (n int, found, all bool) {
	h := headerHash(header)
	for i := range r.entries {
		e := r.entries[(r.next+len(r.entries)-1-i)%len(r.entries)]
		if e&^0xffff == h {
			return int(e & 0xffff), true, true
		}
	}
	return 0, false, len(r.entries) < maxHeaders
}

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

// lengths judges whole untagged messages by themselves: their length, and fields with
// few legal values.
type lengths struct{ *conn }

// fixed lists the messages of fixed length, in octets, and the rules about it.
var fixed = map[verbs.Opcode]struct {
	rule     string
	min, max int
}{
	verbs.OpReadRequest:         {"RDMAP-010", 28, 28},
	verbs.OpImmediate:           {"RDMAP-011", 8, 8},
	verbs.OpImmediateSE:         {"RDMAP-011", 8, 8},
	verbs.OpAtomicRequest:       {"RDMAP-012", 52, 52},
	verbs.OpAtomicResponse:      {"RDMAP-013", 12, 12},
	verbs.OpFlushRequest:        {"RDMAP-014", 20, 20},
	verbs.OpVerifyRequest:       {"RDMAP-015", 16, maxHash + 16},
	verbs.OpAtomicWriteRequest:  {"RDMAP-016", 24, 24},
	verbs.OpFlushResponse:       {"RDMAP-017", 0, 0},
	verbs.OpAtomicWriteResponse: {"RDMAP-017", 0, 0},
}

// maxHash is the length of the longest plausible hash of a Verify, in octets. The draft leaves the algorithm
// to the two sides; 64 is SHA-512.
const maxHash = 64

func (m *lengths) event(ev *decode.Event) {
	if ev.Message == nil || m.lost[ev.Dir] {
		return
	}
	b := ev.Message.Payload
	if l, ok := fixed[ev.Message.Op]; ok && (len(b) < l.min || len(b) > l.max) {
		m.violate(l.rule, "%v of %d octets", ev.Message.Op, len(b))
		m.lose(ev.Dir)
		return
	}
	switch ev.Message.Op {
	case verbs.OpAtomicRequest:
		m.atomic(b)
	case verbs.OpFlushRequest:
		if flags := binary.BigEndian.Uint32(b[16:]); flags&^uint32(verbs.FlushPersistent|verbs.FlushVisible) != 0 {
			m.violate("RDMAP-021", "flags %#08x", flags)
		}
	case verbs.OpAtomicWriteRequest:
		if n := binary.BigEndian.Uint32(b[4:]); n != 8 {
			m.violate("RDMAP-022", "length %d", n)
		}
	default:
	}
}

func (m *lengths) end() {}

// atomic judges the fields of an Atomic Request, RFC 7306 Section 5.2.1.
func (m *lengths) atomic(b []byte) {
	be := binary.BigEndian
	word := be.Uint32(b)
	op := verbs.AtomicOp(word & 0x0f)
	switch {
	case op > verbs.AtomicCmpSwap:
		m.violate("RDMAP-018", "operation %d", op)
	case op == verbs.AtomicFetchAdd && (be.Uint64(b[36:]) != 0 || be.Uint64(b[44:]) != ^uint64(0)):
		m.violate("RDMAP-020", "compare data %#x, mask %#x", be.Uint64(b[36:]), be.Uint64(b[44:]))
	}
	if word>>4 != 0 {
		m.violate("RDMAP-019", "%#08x", word)
	}
}

// spans is a set of octets, as ascending half-open intervals that do not touch.
type spans [][2]uint64

// maxSpans bounds a set. Octets that come out of order in more pieces are taken to be there: a judge that
// has lost count reports nothing.
const maxSpans = 64

// add adds [from, to).
func (s *spans) add(from, to uint64) {
	if from >= to {
		return
	}
	v := *s
	if n := len(v); n > 0 && v[n-1][1] == from { // the usual case
		v[n-1][1] = to
		return
	}
	i := 0
	for i < len(v) && v[i][1] < from {
		i++
	}
	j := i
	for j < len(v) && v[j][0] <= to {
		from, to = min(from, v[j][0]), max(to, v[j][1])
		j++
	}
	if i == j && len(v) >= maxSpans {
		*s = spans{{v[0][0], max(v[len(v)-1][1], to)}}
		return
	}
	*s = slices.Replace(v, i, j, [2]uint64{from, to})
}

// cover reports whether all of [from, to) is in the set.
func (s spans) cover(from, to uint64) bool {
	return from >= to || slices.ContainsFunc(s, func(r [2]uint64) bool { return r[0] <= from && to <= r[1] })
}
