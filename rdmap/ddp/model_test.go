package ddp_test

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/stag-rdma/stag/rdmap/ddp"
)

// model states the rules a second time, slowly: it looks at raw octets, and keeps the legal window as a
// set and memory as a map.
type model struct {
	next   [4]uint64 // not reduced modulo 2^32
	posted [4]int
	size   int
	mem    map[ddp.STag]map[uint64]byte // every legal octet is a key
	open   map[bool]*modelMessage       // by tagged
	dead   bool
}

type modelMessage struct {
	opcode byte
	stag   uint32
	named  bool // stag is known
	qn     uint32
	msn    uint32
	data   []byte
	placed int
}

func newModel(g *rig) *model {
	m := &model{size: g.q[0].size, mem: map[ddp.STag]map[uint64]byte{}, open: map[bool]*modelMessage{}}
	for i := range m.next {
		m.next[i] = uint64(g.next[i])
		m.posted[i] = g.q[i].posted
	}
	for stag, b := range g.sinks.mem {
		m.mem[stag] = map[uint64]byte{}
		for i := range b {
			m.mem[stag][uint64(i)] = 0
		}
	}
	return m
}

func be(b []byte) (v uint64) {
	for _, x := range b {
		v = v<<8 | uint64(x)
	}
	return v
}

// receive returns what u must result in: a violation, or whether a message is delivered, and its
// octets.
func (m *model) receive(u []byte) (v ddp.Violation, delivered bool, data []byte) {
	v, delivered, data = m.judge(u)
	m.dead = m.dead || v != ddp.OK
	return v, delivered, data
}

func (m *model) judge(u []byte) (ddp.Violation, bool, []byte) {
	if len(u) == 0 || u[0]&0x80 == 0 && len(u) < 18 || len(u) < 14 {
		return ddp.LocalCatastrophic, false, nil
	}
	tagged, last, opcode := u[0]&0x80 != 0, u[0]&0x40 != 0, u[1]&0x0f
	if u[0]&3 != 1 {
		if tagged {
			return ddp.TaggedVersion, false, nil
		}
		return ddp.UntaggedVersion, false, nil
	}
	if tagged {
		return m.tagged(uint32(be(u[2:6])), be(u[6:14]), last, opcode, u[14:])
	}
	return m.untagged(uint32(be(u[6:10])), uint32(be(u[10:14])), uint32(be(u[14:18])), last, opcode, u[18:])
}

func (m *model) untagged(qn, msn, mo uint32, last bool, opcode byte, p []byte) (ddp.Violation, bool, []byte) {
	if qn > 3 {
		return ddp.InvalidQN, false, nil
	}
	cur := m.open[false]
	begins := cur == nil || qn == 2 && cur.qn != 2 // a Terminate may come inside another message
	if begins {
		window := map[uint32]bool{}
		for i := range m.posted[qn] {
			window[uint32(m.next[qn]+uint64(i))] = true
		}
		behind := m.next[qn] - uint64(msn) // modulo 2^64; only its low 32 bits count
		if !window[msn] {
			if b := uint32(behind); b != 0 && b <= 1<<31 {
				return ddp.MSNRange, false, nil
			}
			return ddp.NoBuffer, false, nil
		}
		if msn != uint32(m.next[qn]) {
			return ddp.MSNRange, false, nil
		}
		cur = &modelMessage{opcode: opcode, qn: qn, msn: msn}
	}
	switch {
	case cur.qn != qn || cur.opcode != opcode:
		return ddp.Interleaved, false, nil
	case cur.msn != msn:
		return ddp.MSNRange, false, nil
	case int64(mo) != int64(len(cur.data)):
		return ddp.InvalidMO, false, nil
	case len(cur.data)+len(p) > m.size:
		return ddp.TooLong, false, nil
	}
	if begins {
		m.posted[qn]--
		m.next[qn]++
		m.open[false] = cur
	}
	cur.data = append(cur.data, p...)
	if last {
		delete(m.open, false)
		return ddp.OK, true, cur.data
	}
	return ddp.OK, false, nil
}

func (m *model) tagged(stag uint32, to uint64, last bool, opcode byte, p []byte) (ddp.Violation, bool, []byte) {
	cur := m.open[true]
	if cur != nil && (cur.opcode != opcode || cur.named && len(p) > 0 && cur.stag != stag) {
		return ddp.Interleaved, false, nil
	}
	if len(p) > 0 {
		if ddp.STag(stag) == 0x66 {
			return ddp.NotAssociated, false, nil
		}
		mem := m.mem[ddp.STag(stag)]
		if mem == nil {
			return ddp.InvalidSTag, false, nil
		}
		for i := range p {
			if to+uint64(i) < to {
				return ddp.TOWrap, false, nil
			}
		}
		for i := range p {
			if _, ok := mem[to+uint64(i)]; !ok {
				return ddp.BaseBounds, false, nil
			}
		}
		for i, x := range p {
			mem[to+uint64(i)] = x
		}
	}
	if cur == nil {
		cur = &modelMessage{opcode: opcode}
		m.open[true] = cur
	}
	cur.placed += len(p)
	if len(p) > 0 {
		cur.stag, cur.named = stag, true
	}
	if last {
		delete(m.open, true)
		return ddp.OK, true, make([]byte, cur.placed)
	}
	return ddp.OK, false, nil
}

// compare passes u to both and fails on any difference.
func compare(t interface{ Fatalf(string, ...any) }, g *rig, m *model, u []byte) (alive bool) {
	v, delivered, data := m.receive(u)
	ev, err := g.receive(u)
	if e, ok := errors.AsType[*ddp.Error](err); ok && e.Violation != v || (err != nil) != (v != ddp.OK) {
		t.Fatalf("%x: got %v, want %v", u, err, v)
	}
	if ev.Delivered != delivered || delivered && ev.Length != uint64(len(data)) ||
		delivered && !ev.Tagged && !bytes.Equal(ev.Data, data) {
		t.Fatalf("%x: got %+v, want delivered %v, %x", u, ev, delivered, data)
	}
	for stag, mem := range m.mem {
		for i, x := range g.sinks.mem[stag] {
			if mem[uint64(i)] != x {
				t.Fatalf("%x: STag %v, octet %d: %#x, want %#x", u, stag, i, x, mem[uint64(i)])
			}
		}
	}
	if g.sinks.pins != 0 {
		t.Fatalf("%d pins", g.sinks.pins)
	}
	return v == ddp.OK
}

// expected returns a segment that would be right at this moment, from which faults are made.
func expected(t *rapid.T, g *rig) ddp.Segment {
	if rapid.Bool().Draw(t, "tagged") {
		s := ddp.Segment{Tagged: true, Control: 0x40, STag: 0x55, TO: rapid.Uint64Range(0, 40).Draw(t, "to")}
		if g.tagged.open {
			s.Control = g.tagged.first.Control
		}
		return s
	}
	if u := g.untagged; u.open {
		return ddp.Segment{Control: u.first.Control, QN: u.first.QN, MSN: u.first.MSN, MO: uint32(u.placed)}
	}
	qn := rapid.Uint32Range(0, 3).Draw(t, "qn")
	return ddp.Segment{Control: 0x43, QN: qn, MSN: g.next[qn]}
}

func TestReceiverModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newRig()
		for i := range g.next {
			g.setNext(i, rapid.SampledFrom([]uint32{1, 0xfffffffe, 0x7fffffff}).Draw(t, "first MSN"))
			g.q[i].inPlace = rapid.Bool().Draw(t, "in place")
		}
		m := newModel(g)
		for range 16 {
			s := expected(t, g)
			s.Last = rapid.Bool().Draw(t, "last")
			pay := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "payload")
			// rapid prefers small numbers: those mean no fault.
			switch rapid.IntRange(0, 40).Draw(t, "fault") {
			case 35:
				s.QN = rapid.Uint32Range(0, 5).Draw(t, "QN")
			case 36:
				s.MSN += rapid.SampledFrom([]uint32{1, 2, 5, 1<<32 - 1, 1 << 31, 1<<31 - 1, 1<<31 + 1}).Draw(t, "MSN")
			case 37:
				s.MO += rapid.SampledFrom([]uint32{1, 4, 1<<32 - 1}).Draw(t, "MO")
			case 38:
				s.STag = rapid.SampledFrom([]ddp.STag{0, 0x66, 0x77, 0x11223344}).Draw(t, "STag")
			case 39:
				s.TO = rapid.SampledFrom([]uint64{33, 1<<64 - 1, 1<<64 - 8, 1 << 63}).Draw(t, "TO")
			case 40:
				s.Control ^= rapid.Byte().Draw(t, "control")
			}
			u := seg(s, string(pay))
			switch rapid.IntRange(0, 60).Draw(t, "octets") {
			case 59:
				u[0] ^= rapid.Byte().Draw(t, "octet 0")
			case 60:
				u = u[:rapid.IntRange(0, len(u)).Draw(t, "cut")]
			}
			if !compare(t, g, m, u) {
				return
			}
		}
	})
}

// FuzzReceiver cuts arbitrary octets into ULPDUs (a length octet before each) and
// compares machine and model on them.
func FuzzReceiver(f *testing.F) {
	for _, u := range ulpdus(f) {
		f.Add(append([]byte{byte(len(u))}, u...))
	}
	two := seg(ddp.Segment{Control: 0x43, MSN: 1}, "HEL")
	f.Add(append(append([]byte{byte(len(two))}, two...), append([]byte{20}, seg(ddp.Segment{Last: true, Control: 0x43, MSN: 1, MO: 3}, "LO")...)...))
	w := seg(ddp.Segment{Tagged: true, Control: 0x40, STag: 0x55, TO: 30}, "HEL")
	f.Add(append([]byte{byte(len(w))}, w...))
	again := seg(ddp.Segment{Last: true, Control: 0x43, MSN: 2}, "HEL")
	one := seg(ddp.Segment{Last: true, Control: 0x43, MSN: 1}, "HEL")
	f.Add(append(append([]byte{byte(len(one))}, one...), append([]byte{byte(len(again))}, again...)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		g := newRig()
		g.q[0].inPlace = true
		m := newModel(g)
		for len(b) > 0 {
			n := min(int(b[0]), len(b)-1)
			if !compare(t, g, m, b[1:1+n]) {
				return
			}
			b = b[1+n:]
		}
	})
}

// FuzzSegment: what parses is encoded to the same octets, except for version and reserved bits.
func FuzzSegment(f *testing.F) {
	for _, u := range ulpdus(f) {
		f.Add(u)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var s ddp.Segment
		if !s.Parse(b) {
			if len(b) >= ddp.UntaggedLen {
				t.Fatal("Parse says that a whole header is too short")
			}
			return
		}
		want := bytes.Clone(b[:s.HeaderLen()])
		want[0] = want[0]&0xc0 | ddp.Version
		if got := s.Append(nil); !bytes.Equal(got, want) {
			t.Fatalf("got %x, want %x", got, want)
		}
	})
}
