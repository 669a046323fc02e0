package ddp_test

import (
	"testing"

	"github.com/stag-rdma/stag/rdmap/ddp"
)

// TestContinues: only a segment that continues the open message, exact to the octet, is placed without
// the checks.
func TestContinues(t *testing.T) {
	first := ddp.Segment{Tagged: true, Control: 0x40, STag: 0x55}
	next := first
	next.TO = 4
	for name, c := range map[string]struct {
		before func(s *ddp.Segment)
		empty  bool
		u      func(s *ddp.Segment) []byte
		want   bool
	}{
		"the next":               {want: true},
		"after the last":         {before: func(s *ddp.Segment) { s.Last = true }},
		"after an empty one":     {before: func(s *ddp.Segment) { s.TO = 4 }, empty: true},
		"the last":               {u: func(s *ddp.Segment) []byte { s.Last = true; return seg(*s, "x") }},
		"an empty one":           {u: func(s *ddp.Segment) []byte { return seg(*s, "") }},
		"half a header":          {u: func(s *ddp.Segment) []byte { return seg(*s, "")[:9] }},
		"another STag":           {u: func(s *ddp.Segment) []byte { s.STag++; return seg(*s, "x") }},
		"another TO":             {u: func(s *ddp.Segment) []byte { s.TO++; return seg(*s, "x") }},
		"another opcode":         {u: func(s *ddp.Segment) []byte { s.Control = 0x42; return seg(*s, "x") }},
		"an untagged one":        {u: func(s *ddp.Segment) []byte { s.Tagged = false; return seg(*s, "xxxxxxxx") }},
		"another version of DDP": {u: func(s *ddp.Segment) []byte { u := seg(*s, "x"); u[0] ^= 2; return u }},
	} {
		g := newRig()
		s, pay := first, "HELL"
		if c.before != nil {
			c.before(&s)
		}
		if c.empty {
			pay = ""
		}
		u := seg(s, pay)
		if _, err := g.Header(u, len(u)); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Place(u[ddp.TaggedLen:]); err != nil {
			t.Fatal(err)
		}
		s = next
		u = seg(s, "O")
		if c.u != nil {
			u = c.u(&s)
		}
		if got := g.Continues(u); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
		if c.want {
			_, _ = g.Header(u, len(u))
			if s.TO++; g.Continues(seg(s, "x")) {
				t.Errorf("%s: continues a segment that is not placed", name)
			}
			_, _ = g.Place(u[ddp.TaggedLen:])
			s.TO--
		}
		g.Fail(ddp.ErrState)
		if s.TO++; g.Continues(seg(s, "x")) {
			t.Errorf("%s: continues after a failure", name)
		}
	}
}
