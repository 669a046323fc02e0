package ddp_test

import (
	"errors"
	"testing"

	"github.com/stag-rdma/stag/rdmap/ddp"
)

// One tagged and one untagged message may be open at a time, in any mixture.
func TestInterleavedKinds(t *testing.T) {
	g := newRig()
	resp := ddp.Segment{Tagged: true, Control: 0x42, STag: 0x55}
	for i, tt := range []struct {
		s         ddp.Segment
		pay       string
		delivered bool
	}{
		{resp, "ab", false},
		{ddp.Segment{Control: 0x43, MSN: 1}, "HE", false},
		{ddp.Segment{Tagged: true, Control: 0x42, STag: 0x55, TO: 2}, "cd", false},
		{ddp.Segment{Last: true, Control: 0x43, MSN: 1, MO: 2}, "LLO", true},
		{ddp.Segment{Last: true, Control: 0x41, QN: 1, MSN: 1}, "request", true},
		{ddp.Segment{Tagged: true, Last: true, Control: 0x42, STag: 0x55, TO: 4}, "ef", true},
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
		s    ddp.Segment
		pay  string
		want ddp.Violation
	}{
		{"right", ddp.Segment{Control: 0x40, STag: 0x55, TO: 3}, "LO", ddp.OK},
		{"not contiguous", ddp.Segment{Control: 0x40, STag: 0x55, TO: 20}, "LO", ddp.OK},
		{"backwards", ddp.Segment{Control: 0x40, STag: 0x55, TO: 1}, "LO", ddp.OK},
		{"empty, other STag", ddp.Segment{Control: 0x40, STag: 1}, "", ddp.OK},
		{"other STag", ddp.Segment{Control: 0x40, STag: 0x11223344}, "LO", ddp.Interleaved},
		{"other opcode", ddp.Segment{Control: 0x42, STag: 0x55, TO: 3}, "LO", ddp.Interleaved},
		{"empty, other opcode", ddp.Segment{Control: 0x42, STag: 0x55}, "", ddp.Interleaved},
		{"bounds", ddp.Segment{Control: 0x40, STag: 0x55, TO: 31}, "LO", ddp.BaseBounds},
		{"interleaving before bounds", ddp.Segment{Control: 0x42, STag: 0x55, TO: 31}, "LO", ddp.Interleaved},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newRig()
			tt.s.Tagged = true
			if ev, err := g.receive(seg(ddp.Segment{Tagged: true, Control: 0x40, STag: 0x55}, "HEL")); err != nil || ev.Delivered {
				t.Fatalf("%+v, %v", ev, err)
			}
			_, err := g.receive(seg(tt.s, tt.pay))
			if tt.want == ddp.OK && err != nil || tt.want != ddp.OK && !errors.Is(err, &ddp.Error{Violation: tt.want}) {
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
	for i, s := range []ddp.Segment{
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
	for i, s := range []ddp.Segment{
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
