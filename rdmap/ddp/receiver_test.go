package ddp_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/stag-rdma/stag/rdmap/ddp"
)

// The violations, one by one, with the codes of the negative vectors. Each leaves memory as it was, is
// final, and quotes the segment. TestReceiverModel meets them in all combinations.
func TestViolations(t *testing.T) {
	us := ulpdus(t)
	send := func(f func(*ddp.Segment)) []byte {
		s := ddp.Segment{Last: true, Control: 0x43, MSN: 1}
		f(&s)
		return seg(s, "HELLO")
	}
	write := func(f func(*ddp.Segment)) []byte {
		s := ddp.Segment{Tagged: true, Last: true, Control: 0x40, STag: 0x11223344}
		f(&s)
		return seg(s, "HELLO")
	}
	begun := func(g *rig) {
		if _, err := g.receive(seg(ddp.Segment{Control: 0x43, MSN: 1}, "HEL")); err != nil {
			t.Error(err)
		}
	}
	patch := func(b []byte, off int, v byte) []byte { b = bytes.Clone(b); b[off] = v; return b }
	for _, tt := range []struct {
		name string
		u    []byte
		set  func(*rig)
		want ddp.Violation
	}{
		{"empty ULPDU", nil, nil, ddp.LocalCatastrophic},
		{"tagged, 13 octets", us["write"][:13], nil, ddp.LocalCatastrophic},
		{"untagged, 17 octets", us["send"][:17], nil, ddp.LocalCatastrophic},
		{"untagged version 0", patch(us["send"], 0, 0x40), nil, ddp.UntaggedVersion},
		{"tagged version 0", patch(us["write"], 0, 0xc0), nil, ddp.TaggedVersion},
		{"QN 4", send(func(s *ddp.Segment) { s.QN = 4 }), nil, ddp.InvalidQN},
		{"no queue 3", us["atomic-write-response"], func(g *rig) { g.cfg.Queues[3] = nil; g.begin() }, ddp.InvalidQN},
		{"MSN 2 first", send(func(s *ddp.Segment) { s.MSN = 2 }), nil, ddp.MSNRange},
		{"MSN beyond the window", send(func(s *ddp.Segment) { s.MSN = 5 }), nil, ddp.NoBuffer},
		{"MSN 0", send(func(s *ddp.Segment) { s.MSN = 0 }), nil, ddp.MSNRange},
		{"MSN far before the window", send(func(s *ddp.Segment) { s.MSN = 1<<31 + 1 }), nil, ddp.MSNRange},
		{"nothing posted", us["send"], func(g *rig) { g.q[0].posted = 0 }, ddp.NoBuffer},
		{"posted negative", us["send"], func(g *rig) { g.q[0].posted = -1 }, ddp.NoBuffer},
		{"MO 4 first", send(func(s *ddp.Segment) { s.MO = 4 }), nil, ddp.InvalidMO},
		{"buffer of 4 octets", us["send"], func(g *rig) { g.q[0].size = 4 }, ddp.TooLong},
		{"queue gives too little", us["send"], func(g *rig) { g.q[0].short = true }, ddp.TooLong},
		{"unknown STag", write(func(s *ddp.Segment) { s.STag = 1 }), nil, ddp.InvalidSTag},
		{"not associated", write(func(s *ddp.Segment) { s.STag = 0x66 }), nil, ddp.NotAssociated},
		{"wrap", write(func(s *ddp.Segment) { s.TO = 1<<64 - 4 }), nil, ddp.TOWrap},
		{"one octet too far", write(func(s *ddp.Segment) { s.TO = 60 }), nil, ddp.BaseBounds},
		{"no sinks", us["write"], func(g *rig) { g.cfg.Sinks = nil; g.begin() }, ddp.InvalidSTag},
		{"sinks give too much", write(func(*ddp.Segment) {}), func(g *rig) { g.sinks.cheat = 1 }, ddp.LocalCatastrophic},
		{"another opcode in an open message", send(func(s *ddp.Segment) { s.Control, s.MO = 0x45, 3 }), begun, ddp.Interleaved},
		{"another queue in an open message", send(func(s *ddp.Segment) { s.QN = 1 }), begun, ddp.Interleaved},
		{"next MSN in an open message", send(func(s *ddp.Segment) { s.MSN = 2 }), begun, ddp.MSNRange},
		{"a gap", send(func(s *ddp.Segment) { s.MO = 4 }), begun, ddp.InvalidMO},
		{"longer than the buffer", send(func(s *ddp.Segment) { s.MO = 3 }), func(g *rig) { g.q[0].size = 7; begun(g) }, ddp.TooLong},
		// The first of several faults counts, in the order of RFC 5041 Section 7.1.
		{"version before QN", patch(send(func(s *ddp.Segment) { s.QN = 9 }), 0, 0x40), nil, ddp.UntaggedVersion},
		{"MSN before MO", send(func(s *ddp.Segment) { s.MSN, s.MO = 3, 9 }), nil, ddp.MSNRange},
		{"MO before length", send(func(s *ddp.Segment) { s.MO = 9 }), func(g *rig) { g.q[0].size = 1 }, ddp.InvalidMO},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newRig()
			if tt.set != nil {
				tt.set(g)
			}
			before := g.memory()
			_, err := g.receive(tt.u)
			e, ok := errors.AsType[*ddp.Error](err)
			if !ok || e.Violation != tt.want {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
			layer, etype, code := tt.want.Code()
			if e.Layer != layer || e.EType != etype || e.Code != code || e.SegmentLen != len(tt.u) {
				t.Errorf("%+v", e)
			}
			var h ddp.Segment
			if e.HasHeader != h.Parse(tt.u) || e.HasHeader && e.Segment != h {
				t.Errorf("header %v %v", e.HasHeader, &e.Segment)
			}
			if after := g.memory(); !reflect.DeepEqual(before, after[:len(before)]) || g.sinks.pins != 0 {
				t.Error("memory touched or pinned")
			}
			if _, again := g.receive(us["send"]); !errors.Is(again, err) || !errors.Is(g.Err(), err) {
				t.Errorf("not final: %v", again)
			}
		})
	}
}

func TestStall(t *testing.T) {
	g := newRig()
	g.q[0].stall = true
	u := ulpdus(t)["send"]
	for range 3 {
		if _, err := g.receive(u); !errors.Is(err, ddp.ErrStalled) {
			t.Fatalf("%v", err)
		}
	}
	// Only queue 0 stalls.
	if _, err := g.receive(seg(ddp.Segment{Tagged: true, Last: true, Control: 0x42, STag: 0x55}, "abc")); err != nil {
		t.Fatal(err)
	}
	if _, err := g.receive(ulpdus(t)["atomic-response"]); err != nil {
		t.Fatal(err)
	}
	g.q[0].stall = false
	if ev, err := g.receive(u); err != nil || string(ev.Data) != "HELLO" {
		t.Errorf("%+v, %v", ev, err)
	}
}

func TestFailReleasesPin(t *testing.T) {
	cause := errors.New("bad CRC")
	g := newRig()
	u := seg(ddp.Segment{Tagged: true, Control: 0x42, STag: 0x55}, "payload")
	if _, err := g.Header(u, len(u)); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Reserve(); err != nil {
		t.Fatal(err)
	}
	g.Fail(cause)
	g.Fail(errors.New("another"))
	if g.sinks.pins != 0 || !errors.Is(g.Err(), cause) {
		t.Errorf("%d pins, %v", g.sinks.pins, g.Err())
	}
	if _, err := g.Reserve(); !errors.Is(err, cause) {
		t.Errorf("%v", err)
	}
	if tagged, _ := g.Open(); !tagged {
		t.Error("Open does not report the message that was cut off")
	}
}

func TestCallOrder(t *testing.T) {
	g := newRig()
	if _, err := g.Reserve(); !errors.Is(err, ddp.ErrState) {
		t.Errorf("Reserve: %v", err)
	}
	if _, err := g.Place(nil); !errors.Is(err, ddp.ErrState) {
		t.Errorf("Place: %v", err)
	}
	if ev := g.Commit(nil); ev.Delivered {
		t.Errorf("Commit: %+v", ev)
	}
	u := ulpdus(t)["send"]
	if _, err := g.Header(u, len(u)); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Place([]byte("HELL")); !errors.Is(err, ddp.ErrState) {
		t.Errorf("Place of too few octets: %v", err)
	}
	if ev, err := g.Place(u[18:]); err != nil || !ev.Delivered {
		t.Errorf("%+v, %v", ev, err)
	}
	// Header releases a pin that is still held.
	w := seg(ddp.Segment{Tagged: true, Control: 0x40, STag: 0x55}, "abc")
	_, _ = g.Header(w, len(w))
	_, _ = g.Reserve()
	_, _ = g.Header(u, len(u))
	if g.sinks.pins != 0 {
		t.Errorf("%d pins", g.sinks.pins)
	}
}
