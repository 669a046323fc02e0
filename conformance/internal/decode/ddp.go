package decode

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// DDP is one DDP segment (RFC 5041 Section 4).
type DDP struct {
	ddp.Segment
	Payload []byte // what follows the header in the ULPDU
}

// RDMAP is what the RDMAP layer puts into the header of a segment (RFC 5040 Section 4.1).
type RDMAP struct {
	Op      verbs.Opcode
	Version uint8 // RV, 1 in a legal segment

	// Invalidate is the STag to invalidate. It has a meaning only for the two Sends that invalidate one
	// ([verbs.Opcode.Invalidates]).
	Invalidate ddp.STag
}

// opcode returns the opcode of a control octet. Its fifth bit is reserved in RFC 5040, and part of the
// opcode in the commit draft, whose two opcodes with that bit are untagged.
func opcode(control uint8, tagged bool) verbs.Opcode {
	if tagged {
		return verbs.Opcode(control & 0x0f)
	}
	return verbs.Opcode(control & 0x1f)
}

// segment decodes the DDP segment in an FPDU, and the message that it completes.
func (c *Conn) segment(ev *Event) {
	c.ddp = DDP{}
	d := &c.ddp
	if !d.Parse(ev.FPDU.ULPDU) {
		ev.fail(fmt.Errorf("%w: ULPDU of %d octets", ErrShort, len(ev.FPDU.ULPDU)))
		return
	}
	d.Payload = ev.FPDU.ULPDU[d.HeaderLen():]
	c.rdmap = RDMAP{Op: opcode(d.Control, d.Tagged), Version: d.Control >> 6, Invalidate: ddp.STag(d.ULP)}
	r := &c.rdmap
	ev.DDP, ev.RDMAP = d, r
	if err := checkSegment(d, r); err != nil {
		ev.fail(err)
		return
	}
	if d.Tagged {
		c.tagged(ev)
	} else {
		c.untagged(ev)
	}
	c.commit(ev)
}

// checkSegment returns an error that makes it pointless to look past the headers.
func checkSegment(d *DDP, r *RDMAP) error {
	switch {
	case d.DV != ddp.Version:
		return fmt.Errorf("%w: DDP %d", ErrVersion, d.DV)
	case r.Version != rdmapVersion:
		return fmt.Errorf("%w: RDMAP %d", ErrVersion, r.Version)
	case r.Op > verbs.OpAtomicWriteResponse || r.Op.Tagged() != d.Tagged:
		return fmt.Errorf("%w: %v, tagged %t", ErrOpcode, r.Op, d.Tagged)
	case !d.Tagged && r.Op.Queue() != d.QN:
		return fmt.Errorf("%w: %v on queue %d", ErrOpcode, r.Op, d.QN)
	}
	return nil
}

// rdmapVersion is the RDMAP version of RFC 5040; 0 is the RDMA Consortium's.
const rdmapVersion = 1

// tagged handles a segment of an RDMA Write or Read Response.
func (c *Conn) tagged(ev *Event) {
	if c.Info.ULP != ULPRPCRDMA {
		return
	}
	if ev.RDMAP.Op == verbs.OpWrite {
		c.rpc.write(ev)
		return
	}
	c.rpc.readResponse(ev)
}

// CRCState is the outcome of checking an FPDU's CRC.
type CRCState uint8

const (
	CRCOff  CRCState = iota // neither side asked for CRCs, so the field has no meaning
	CRCGood                 // the CRC matches
	CRCBad                  // it does not
)

// String returns "off", "ok" or "bad".
func (s CRCState) String() string { return [...]string{"off", "ok", "bad"}[s] }

// FPDU is one FPDU (RFC 5044 Section 4.1).
type FPDU struct {
	ULPDU    []byte // the DDP segment in it, 0 to 65535 octets, markers removed
	Pad      []byte // 0 to 3 octets, which should be zero but are not with Linux siw. Nil with Markers
	CRC      uint32 // the field as it stands
	CRCState CRCState
	Markers  int // octets of markers in it (RFC 5044 Section 4.3)
}

// fpdu decodes the FPDU at index at of a side's buffer and returns its length, 0 if it is not complete. A
// bad CRC does not end the decoding: the length is believed, so that the next frames can still be seen.
func (c *Conn) fpdu(dir Dir, at int) int {
	s := &c.sides[dir]
	d := s.marks
	if d == nil {
		d = new(mpa.Deframer)
	}
	b := s.buf[at:]
	n := d.Need(b)
	if s.strays(b) || len(b) < n {
		return 0
	}
	n = d.Need(b) // the length field is there now, if it was not before
	if len(b) < n {
		return 0
	}
	ev := c.frame(KindFPDU, dir, at, n)
	c.fp = FPDU{CRC: mpa.ReadCRC(b[n-mpa.CRCLen:])}
	ev.FPDU = &c.fp
	err := c.deframe(ev, d, b[:n])
	if err == nil {
		c.segment(ev)
	}
	c.visit(ev)
	if err != nil {
		s.lose(err)
	}
	return n
}

// deframe takes the whole FPDU in b apart and checks its CRC. After an error the stream cannot be followed.
func (c *Conn) deframe(ev *Event, d *mpa.Deframer, b []byte) error {
	f := &c.fp
	if c.Info.CRC {
		f.CRCState = CRCGood
		check := *d // so that d does not stop at a bad CRC
		check.CRC = true
		_, _, err := check.Next(c.squeezable(ev.Dir, b))
		if bad, ok := errors.AsType[*mpa.Error](err); ok && bad.Code == mpa.CodeCRC {
			f.CRCState = CRCBad
			ev.fail(fmt.Errorf("%w: %w", ErrCRC, err))
		}
	}
	ulpdu, _, err := d.Next(c.squeezable(ev.Dir, b))
	if err != nil {
		ev.Err = fmt.Errorf("%w: %w", ErrMarkers, err) // also of a bad CRC: it was summed over other octets
		return ev.Err
	}
	f.ULPDU = ulpdu
	f.Markers = len(b) - mpa.FPDULen(len(ulpdu))
	if f.Markers == 0 {
		f.Pad = b[mpa.HeaderLen+len(ulpdu) : len(b)-mpa.CRCLen]
	}
	return nil
}

// squeezable returns b, or a copy of it if markers will be squeezed out: events show the octets as they were
// sent.
func (c *Conn) squeezable(dir Dir, b []byte) []byte {
	if c.sides[dir].marks == nil {
		return b
	}
	c.scratch = append(c.scratch[:0], b...)
	return c.scratch
}

// fail records the first thing wrong with an event.
func (e *Event) fail(err error) {
	if e.Err == nil {
		e.Err = err
	}
}

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

// Extension is what a message of RFC 7306 or draft-talpey-rdma-commit says besides its opcode. The opcode
// decides which fields have a meaning:
//
//	Immediate Data          Data, 8 octets
//	Atomic Request          STag, TO: the word; ID; Atomic
//	Atomic Response         ID; Old
//	Flush Request           STag, Len, TO: the target; Flags
//	Verify Request          STag, Len, TO: the target; Data: the hash expected, or none
//	Verify Response         Data: the hash
//	Atomic Write Request    STag, Len, TO: the word; Data, 8 octets
type Extension struct {
	STag   ddp.STag
	Len    uint32
	TO     uint64
	Flags  verbs.FlushFlags
	ID     uint32
	Atomic verbs.Atomic
	Old    uint64
	Data   []byte // lent with the message
}

// extensionLen is the least payload of each opcode that has one, in octets.
var extensionLen = map[verbs.Opcode]int{
	verbs.OpImmediate: 8, verbs.OpImmediateSE: 8, verbs.OpAtomicRequest: 52, verbs.OpAtomicResponse: 12,
	verbs.OpFlushRequest: 20, verbs.OpVerifyRequest: 16, verbs.OpVerifyResponse: 1, verbs.OpAtomicWriteRequest: 24,
}

// parse reads the payload of a message; ok is false when it is too short for op.
func (x *Extension) parse(op verbs.Opcode, b []byte) (ok bool) {
	if len(b) < extensionLen[op] {
		return false
	}
	switch op {
	case verbs.OpImmediate, verbs.OpImmediateSE, verbs.OpVerifyResponse:
		x.Data = b
	case verbs.OpAtomicRequest:
		x.atomic(b)
	case verbs.OpAtomicResponse:
		x.ID, x.Old = binary.BigEndian.Uint32(b), binary.BigEndian.Uint64(b[4:])
	case verbs.OpFlushRequest:
		x.target(b)
		x.Flags = verbs.FlushFlags(b[19])
	case verbs.OpVerifyRequest, verbs.OpAtomicWriteRequest:
		x.target(b)
		x.Data = b[16:]
	default:
	}
	return true
}

// target reads the head of a commit request: STag, length, TO.
func (x *Extension) target(b []byte) {
	be := binary.BigEndian
	x.STag, x.Len, x.TO = ddp.STag(be.Uint32(b)), be.Uint32(b[4:]), be.Uint64(b[8:])
}

// atomic reads an Atomic Request, RFC 7306 Section 5.2.1.
func (x *Extension) atomic(b []byte) {
	be := binary.BigEndian
	x.ID, x.STag, x.TO = be.Uint32(b[4:]), ddp.STag(be.Uint32(b[8:])), be.Uint64(b[12:])
	x.Atomic = verbs.Atomic{
		Op: verbs.AtomicOp(b[3] & 0x0f), Operand: be.Uint64(b[20:]), Mask: be.Uint64(b[28:]),
		Compare: be.Uint64(b[36:]), CompareMask: be.Uint64(b[44:]),
	}
}

// text renders the extension for a message of opcode op.
func (x *Extension) text(b *strings.Builder, op verbs.Opcode) {
	switch op {
	case verbs.OpImmediate, verbs.OpImmediateSE:
		fmt.Fprintf(b, " | data=%x", x.Data)
	case verbs.OpAtomicRequest:
		a := &x.Atomic
		fmt.Fprintf(b, " | %v id=%d stag=%v to=%#x operand=%#x mask=%#x", a.Op, x.ID, x.STag, x.TO, a.Operand, a.Mask)
		if a.Op == verbs.AtomicCmpSwap {
			fmt.Fprintf(b, " compare=%#x compare_mask=%#x", a.Compare, a.CompareMask)
		}
	case verbs.OpAtomicResponse:
		fmt.Fprintf(b, " | id=%d old=%#x", x.ID, x.Old)
	case verbs.OpFlushRequest:
		fmt.Fprintf(b, " | stag=%v len=%d to=%#x flags=%#02x", x.STag, x.Len, x.TO, uint8(x.Flags))
	case verbs.OpVerifyRequest:
		fmt.Fprintf(b, " | stag=%v len=%d to=%#x hash=%x", x.STag, x.Len, x.TO, x.Data)
	case verbs.OpVerifyResponse:
		fmt.Fprintf(b, " | hash=%x", x.Data)
	case verbs.OpAtomicWriteRequest:
		fmt.Fprintf(b, " | stag=%v to=%#x data=%x", x.STag, x.TO, x.Data)
	default:
	}
}
