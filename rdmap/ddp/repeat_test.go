package ddp_test

import (
	"testing"

	"github.com/stag-rdma/stag/rdmap/ddp"
)

// TestRepeats: only a message that differs from the one before just in MSN and payload is delivered
// without the checks.
func TestRepeats(t *testing.T) {
	for name, c := range map[string]struct {
		before func(g *rig, s *ddp.Segment)
		u      func(s *ddp.Segment) []byte
		want   bool
	}{
		"the next":               {want: true},
		"an empty one":           {u: func(s *ddp.Segment) []byte { return seg(*s, "") }, want: true},
		"after half a message":   {before: func(_ *rig, s *ddp.Segment) { s.Last = false }},
		"after a copied one":     {before: func(g *rig, _ *ddp.Segment) { g.q[0].inPlace = false }},
		"after a tagged one":     {before: func(_ *rig, s *ddp.Segment) { s.Tagged, s.STag = true, 0x55 }},
		"after another queue's":  {before: func(_ *rig, s *ddp.Segment) { s.QN, s.MSN = 3, 1 }},
		"half a message":         {u: func(s *ddp.Segment) []byte { s.Last = false; return seg(*s, "x") }},
		"half a header":          {u: func(s *ddp.Segment) []byte { return seg(*s, "")[:17] }},
		"nothing":                {u: func(*ddp.Segment) []byte { return nil }},
		"the same MSN":           {u: func(s *ddp.Segment) []byte { s.MSN--; return seg(*s, "x") }},
		"the MSN after the next": {u: func(s *ddp.Segment) []byte { s.MSN++; return seg(*s, "x") }},
		"another MO":             {u: func(s *ddp.Segment) []byte { s.MO = 1; return seg(*s, "x") }},
		"another queue":          {u: func(s *ddp.Segment) []byte { s.QN = 3; return seg(*s, "x") }},
		"another STag":           {u: func(s *ddp.Segment) []byte { s.ULP = 1; return seg(*s, "x") }},
		"another opcode":         {u: func(s *ddp.Segment) []byte { s.Control = 0x45; return seg(*s, "x") }},
		"a tagged one":           {u: func(s *ddp.Segment) []byte { s.Tagged = true; return seg(*s, "xxxxxxxx") }},
		"another version of DDP": {u: func(s *ddp.Segment) []byte { u := seg(*s, "x"); u[0] ^= 2; return u }},
	} {
		g := newRig()
		g.q[0].inPlace, g.q[3].inPlace = true, true
		s := ddp.Segment{Last: true, Control: 0x43, MSN: 1}
		if g.Repeats(seg(s, "x")) {
			t.Errorf("%s: repeats although nothing precedes it", name)
		}
		g.place(t, seg(s, "HELLO"))
		s.MSN++
		next := s
		if c.before != nil {
			c.before(g, &s)
		}
		g.place(t, seg(s, "HELLO"))
		next.MSN = g.next[0]
		u := seg(next, "x")
		if c.u != nil {
			u = c.u(&next)
		}
		if got := g.Repeats(u); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
		if c.want {
			g.Repeat(len(u) - ddp.UntaggedLen)
			if g.Repeats(u) {
				t.Errorf("%s: repeats twice", name)
			}
			next.MSN++
			_, _ = g.Header(seg(next, "x"), ddp.UntaggedLen+1)
			if next.MSN++; g.Repeats(seg(next, "x")) {
				t.Errorf("%s: repeats a segment that is not placed", name)
			}
		}
	}
}

// TestRepeatsFailed: nothing repeats after a failure.
func TestRepeatsFailed(t *testing.T) {
	g := newRig()
	g.q[0].inPlace = true
	g.place(t, seg(ddp.Segment{Last: true, Control: 0x43, MSN: 1}, "HELLO"))
	next := seg(ddp.Segment{Last: true, Control: 0x43, MSN: 2}, "x")
	if !g.Repeats(next) {
		t.Error("does not repeat")
	}
	if g.Fail(ddp.ErrState); g.Repeats(next) {
		t.Error("repeats after a failure")
	}
}

// place is Header and Place.
func (g *rig) place(t *testing.T, u []byte) {
	t.Helper()
	s, err := g.Header(u, len(u))
	if err != nil {
		t.Fatal(err)
	}
	h := *s
	ev, err := g.Place(u[s.HeaderLen():])
	if err != nil {
		t.Fatal(err)
	}
	g.note(h, ev)
}
