package judge_test

import (
	"encoding/binary"
	"time"

	"github.com/stag-rdma/stag/conformance/internal/judge/internal/twin"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// grow adds n octets to, or takes -n from, the n-th message of an opcode.
func grow(op verbs.Opcode, n int) func(*twin.Trace) {
	return the(op, 0, func(f *twin.Frame) { f.Payload = append(f.Payload, make([]byte, 64)...)[:len(f.Payload)+n] })
}

// set stores a 32-bit word in the payload of the first message of an opcode.
func set(op verbs.Opcode, at int, v uint32) func(*twin.Trace) {
	return the(op, 0, func(f *twin.Frame) { binary.BigEndian.PutUint32(f.Payload[at:], v) })
}

// terminate changes the Terminate of terminated.
func terminate(f func(b []byte) []byte) func(*twin.Trace) {
	return the(verbs.OpTerminate, 0, func(fr *twin.Frame) { fr.Payload = f(fr.Payload) })
}

// busy is a conversation of a responder with as many Reads outstanding as agreed.
func busy() *twin.Trace {
	t := twin.New()
	t.Request(enhanced(deep))
	t.Reply(enhanced(deep))
	t.Send(twin.I, octets(20))
	for n := range uint32(4) {
		t.ReadRequest(twin.R, read(n))
	}
	for n := range uint32(4) {
		t.ReadResponse(twin.I, read(n))
	}
	return t.Close()
}

var rdmapTwins = map[string]twinOf{
	"RDMAP-001": {good: every, mutate: the(verbs.OpSend, 0, func(f *twin.Frame) { f.Seg.Control = 0x83 })},
	"RDMAP-002": {good: every, mutate: the(verbs.OpSend, 0, func(f *twin.Frame) { f.Seg.Control |= 0x20 })},
	"RDMAP-003": {good: every, mutate: the(verbs.OpSend, 0, func(f *twin.Frame) { f.Seg.Control = 0x52 })},
	"RDMAP-004": {good: every, mutate: the(verbs.OpSend, 0, func(f *twin.Frame) { f.Seg.Control = 0x40 })},
	"RDMAP-005": {good: every, mutate: the(verbs.OpSend, 0, func(f *twin.Frame) { f.Seg.QN = 1 })},
	"RDMAP-006": {good: every, mutate: the(verbs.OpSendSE, 0, func(f *twin.Frame) { f.Seg.ULP = 0x3300 })},

	"RDMAP-008": {good: every, mutate: func(t *twin.Trace) {
		for _, f := range t.Frames[:2] {
			f.Startup.PrivateData = nil
		}
	}},
	"RDMAP-010": {good: every, mutate: grow(verbs.OpReadRequest, 4)},
	"RDMAP-011": {good: every, mutate: grow(verbs.OpImmediate, -1)},
	"RDMAP-012": {good: every, mutate: grow(verbs.OpAtomicRequest, -8)},
	"RDMAP-013": {good: every, mutate: grow(verbs.OpAtomicResponse, 4)},
	"RDMAP-014": {good: every, mutate: grow(verbs.OpFlushRequest, -4)},
	"RDMAP-015": {good: every, mutate: grow(verbs.OpVerifyRequest, -8)},
	"RDMAP-016": {good: every, mutate: grow(verbs.OpAtomicWriteRequest, 8)},
	"RDMAP-017": {good: every, mutate: grow(verbs.OpFlushResponse, 4)},
	"RDMAP-018": {good: every, mutate: set(verbs.OpAtomicRequest, 0, 3)},
	"RDMAP-019": {good: every, mutate: set(verbs.OpAtomicRequest, 0, 0x10)},
	"RDMAP-020": {good: every, mutate: set(verbs.OpAtomicRequest, 36, 1)},
	"RDMAP-021": {good: every, mutate: set(verbs.OpFlushRequest, 16, 4)},
	"RDMAP-022": {good: every, mutate: set(verbs.OpAtomicWriteRequest, 4, 4)},

	"RDMAP-030": {good: every, mutate: func(t *twin.Trace) {
		t.Drop(t.Nth(verbs.OpReadRequest, 0))
		t.Renumber()
	}},
	"RDMAP-031": {good: every, mutate: func(t *twin.Trace) {
		t.Swap(t.Nth(verbs.OpReadRequest, 2), t.Nth(verbs.OpReadRequest, 3))
		t.Renumber()
	}},
	"RDMAP-032": {good: every, mutate: func(t *twin.Trace) { // a Response of one segment
		r := frames(t, verbs.OpReadResponse)
		r[len(r)-1].Seg.STag = 0x9900
	}},
	"RDMAP-033": {good: every, mutate: func(t *twin.Trace) {
		r := frames(t, verbs.OpReadResponse)
		r[len(r)-1].Seg.TO += 8
	}},
	"RDMAP-034": {good: every, mutate: set(verbs.OpReadRequest, 12, 204)},
	"RDMAP-035": {good: every, mutate: set(verbs.OpAtomicResponse, 0, 76)},
	"RDMAP-036": {good: busy, mutate: ofReply(func(s *twin.Startup) { s.Word.ORD = 3 })},
	"RDMAP-037": {good: every, mutate: set(verbs.OpVerifyResponse, 0, 0)},

	"RDMAP-040": {good: every, mutate: func(t *twin.Trace) {
		w := &twin.Frame{Dir: twin.R, Seg: ddp.Segment{Tagged: true, Last: true, DV: 1, Control: 0x40, STag: 0x3300}, Payload: octets(4)}
		t.After(t.Nth(verbs.OpSendInvalidate, 0), w)
	}},
	"RDMAP-041": {good: every, mutate: the(verbs.OpSendInvalidate, 1, func(f *twin.Frame) { f.Seg.ULP = 0x3300 })},

	"RDMAP-050": {good: terminated, mutate: func(t *twin.Trace) {
		late := &twin.Frame{Dir: twin.R, Seg: ddp.Segment{Last: true, DV: 1, Control: 0x43, MSN: 1}}
		t.After(t.Nth(verbs.OpTerminate, 0), late)
	}},
	"RDMAP-051": {good: terminated, mutate: func(t *twin.Trace) {
		f := t.Nth(verbs.OpTerminate, 0)
		first := &twin.Frame{Dir: f.Dir, Seg: f.Seg, Payload: f.Payload[:6]}
		first.Seg.Last = false
		f.Seg.MO, f.Payload = 6, f.Payload[6:]
		t.Before(f, first)
	}},
	"RDMAP-052": {good: terminated, mutate: terminate(func(b []byte) []byte { b[1] = 0x77; return b })},
	"RDMAP-053": {good: terminated, mutate: terminate(func(b []byte) []byte { b[3] = 1; return b })},
	"RDMAP-054": {good: terminated, mutate: terminate(func(b []byte) []byte { return append(b, 1) })},
	"RDMAP-055": {good: terminated, mutate: terminate(func(b []byte) []byte { b[2] = 0x40; return b })},
	"RDMAP-056": {good: terminated, mutate: terminate(func(b []byte) []byte { b[6+13]++; return b })}, // the MSN quoted
	"RDMAP-057": {good: terminated, mutate: terminate(func(b []byte) []byte { b[5] -= 18; return b })},
	"RDMAP-058": {good: crossed, mutate: func(t *twin.Trace) {
		f := t.Nth(verbs.OpTerminate, 1)
		f.Payload = (&verbs.Terminate{
			Code:      verbs.TermCode{Layer: 0, EType: 2, Code: 0x06},
			HasLength: true, SegLen: 18 + 24, DDP: t.Nth(verbs.OpTerminate, 0).Seg.Append(nil),
		}).Append(nil)
	}},
	"RDMAP-059": {good: terminated, mutate: terminate(func(b []byte) []byte { b[0], b[2] = 0x21, 0x03; return b })},
	"RDMAP-060": {good: terminated, mutate: terminate(func(b []byte) []byte { b[1] = 0x01; return b })}, // invalid QN
	"RDMAP-062": {good: terminated, mutate: func(t *twin.Trace) {
		late := &twin.Frame{Dir: twin.I, Seg: ddp.Segment{Last: true, DV: 1, Control: 0x43, MSN: 3}, Later: 2 * time.Second}
		t.After(t.Nth(verbs.OpTerminate, 0), late)
	}},
	"RDMAP-061": {good: terminated, mutate: terminate(func([]byte) []byte { return []byte{0x20, 0x04, 0, 0} })},
}

// crossed is a conversation in which both sides find something wrong at the same time.
func crossed() *twin.Trace {
	t := twin.New().Startup()
	a := t.Send(twin.I, octets(30))
	b := t.Send(twin.R, octets(30))
	noBuffer := func(s *twin.Frame) *verbs.Terminate {
		return &verbs.Terminate{
			Code:      verbs.TermCode{Layer: 1, EType: 2, Code: 0x02},
			HasLength: true, SegLen: 18 + 30, DDP: s.Seg.Append(nil),
		}
	}
	t.Terminate(twin.R, noBuffer(a))
	t.Terminate(twin.I, noBuffer(b))
	return t.Close()
}
