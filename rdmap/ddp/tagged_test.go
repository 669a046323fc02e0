package ddp

import (
	"errors"
	"testing"
)

// One tagged and one untagged message may be open at a time, in any mixture.
func TestInterleavedKinds(t *testing.T) {
	g := newRig()
	resp := Segment{Tagged: true, Control: 0x42, STag: 0x55}
	for i, tt := range []struct {
		s         Segment
		pay       string
		delivered bool
	}{
		{resp, "ab", false},
		{Segment{Control: 0x43, MSN: 1}, "HE", false},
		{Segment{Tagged: true, Control: 0x42, STag: 0x55, TO: 2}, "cd", false},
		{Segment{Last: true, Control: 0x43, MSN: 1, MO: 2}, "LLO", true},
		{Segment{Last: true, Control: 0x41, QN: 1, MSN: 1}, "request", true},
		{Segment{Tagged: true, Last: true, Control: 0x42, STag: 0x55, TO: 4}, "ef", true},
	} {
		ev, err := g.receive(seg(tt.s, tt.pay))
		if err != nil || ev.Delivered != tt.delivered || ev.Tagged != tt.s.Tagged {
			t.Fatalf("%d: %+v, %v", i, ev, err)
		}
	}
	if got := string(g.sinks.mem[0x55][:6]); got != "abcdef" {
		t.Errorf("placed %q", got)
	}
	if got := string(g.q[0].opened[0][:5]); got != "HELLO" {
		t.Errorf("placed %q", got)
	}
}

func TestTaggedContinuation(t *testing.T) {
	for _, tt := range []struct {
		name string
		s    Segment
		pay  string
		want Violation
	}{
		{"right", Segment{Control: 0x40, STag: 0x55, TO: 3}, "LO", OK},
		{"not contiguous", Segment{Control: 0x40, STag: 0x55, TO: 20}, "LO", OK},
		{"backwards", Segment{Control: 0x40, STag: 0x55, TO: 1}, "LO", OK},
		{"empty, other STag", Segment{Control: 0x40, STag: 1}, "", OK},
		{"other STag", Segment{Control: 0x40, STag: 0x11223344}, "LO", Interleaved},
		{"other opcode", Segment{Control: 0x42, STag: 0x55, TO: 3}, "LO", Interleaved},
		{"empty, other opcode", Segment{Control: 0x42, STag: 0x55}, "", Interleaved},
		{"bounds", Segment{Control: 0x40, STag: 0x55, TO: 31}, "LO", BaseBounds},
		{"interleaving before bounds", Segment{Control: 0x42, STag: 0x55, TO: 31}, "LO", Interleaved},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newRig()
			tt.s.Tagged = true
			if ev, err := g.receive(seg(Segment{Tagged: true, Control: 0x40, STag: 0x55}, "HEL")); err != nil || ev.Delivered {
				t.Fatalf("%+v, %v", ev, err)
			}
			_, err := g.receive(seg(tt.s, tt.pay))
			if tt.want == OK && err != nil || tt.want != OK && !errors.Is(err, &Error{Violation: tt.want}) {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
			if g.sinks.pins != 0 {
				t.Errorf("%d pins", g.sinks.pins)
			}
		})
	}
}

// An empty first segment does not fix the STag.
func TestEmptyFirstSegment(t *testing.T) {
	g := newRig()
	for i, s := range []Segment{
		{Control: 0x40, STag: 0xdead},
		{Control: 0x40, STag: 0x55, Last: true},
	} {
		s.Tagged = true
		if _, err := g.receive(seg(s, "abc"[:i])); err != nil {
			t.Fatal(err)
		}
	}
}

// The STag of an empty segment is not checked, wherever in a message the segment is.
func TestEmptySegmentBetween(t *testing.T) {
	g := newRig()
	for i, s := range []Segment{
		{Control: 0x40, STag: 0x55},
		{Control: 0x40, STag: 0xdead, TO: 1 << 63},
		{Control: 0x40, STag: 0x55, TO: 2, Last: true},
	} {
		s.Tagged = true
		if ev, err := g.receive(seg(s, []string{"ab", "", "cd"}[i])); err != nil || ev.Delivered != s.Last {
			t.Fatalf("%d: %+v, %v", i, ev, err)
		}
	}
	if got := string(g.sinks.mem[0x55][:4]); got != "abcd" {
		t.Errorf("placed %q", got)
	}
}
