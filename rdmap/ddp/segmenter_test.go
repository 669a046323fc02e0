package ddp

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// RFC 5041 Section 5.2, the example: MULPDU 1500, 2048 octets.
func TestSegmenterRFC(t *testing.T) {
	type cut struct {
		off uint64
		n   int
	}
	for _, tt := range []struct {
		tmpl Segment
		max  int
		want []cut
	}{
		{Segment{MSN: 1}, 1500 - UntaggedLen, []cut{{0, 1482}, {1482, 566}}},
		{Segment{Tagged: true, TO: 16384}, 1500 - TaggedLen, []cut{{16384, 1486}, {17870, 562}}},
	} {
		g := Segmenter{Template: tt.tmpl, Length: 2048, MaxPayload: tt.max}
		for i, want := range tt.want {
			s, _, n, ok := g.Next()
			off := s.TO
			if !s.Tagged {
				off = uint64(s.MO)
			}
			if !ok || off != want.off || n != want.n || s.Last != (i == 1) {
				t.Errorf("segment %d: %v, %d octets", i, &s, n)
			}
		}
		if _, _, _, ok := g.Next(); ok || !g.Done() || g.Left() != 0 {
			t.Error("more than two segments")
		}
	}
}

func TestMaxPayload(t *testing.T) {
	for _, tt := range []struct{ mulpdu, tagged, untagged int }{
		{1442, 1428, 1424}, // observed from Linux
		{1500, 1484, 1480},
		{64768, 64752, 64748},
		{128, 112, 108},
		{0, 4, 4},
	} {
		if got := MaxPayload(true, tt.mulpdu); got != tt.tagged {
			t.Errorf("tagged %d: %d", tt.mulpdu, got)
		}
		if got := MaxPayload(false, tt.mulpdu); got != tt.untagged {
			t.Errorf("untagged %d: %d", tt.mulpdu, got)
		}
	}
}

func TestSegmenterProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tmpl := drawSegment(t)
		g := Segmenter{
			Template:   tmpl,
			Length:     rapid.Uint32Range(0, 4000).Draw(t, "length"),
			MaxPayload: rapid.IntRange(-1, 500).Draw(t, "max"),
		}
		length, most := g.Length, max(g.MaxPayload, 1)
		var sum uint32
		last := false
		for s, off, n, ok := g.Next(); ok; s, off, n, ok = g.Next() {
			if last || off != sum || n > most || (n == 0 && length != 0) || (n < most && !s.Last) {
				t.Fatalf("segment at %d: %v, %d octets", off, &s, n)
			}
			want := tmpl
			want.Last = s.Last
			if tmpl.Tagged {
				want.TO += uint64(off)
			} else {
				want.MO = off
			}
			if s != want {
				t.Fatalf("got %v, want %v", &s, &want)
			}
			last = s.Last
			sum += uint32(n)
			if g.Left() != length-sum {
				t.Fatalf("%d left, want %d", g.Left(), length-sum)
			}
		}
		if !last || sum != length {
			t.Fatalf("%d of %d octets, last %v", sum, length, last)
		}
	})
}

func TestSegmenterLongest(t *testing.T) {
	g := Segmenter{Length: math.MaxUint32, MaxPayload: 1 << 30}
	var sum uint64
	for _, _, n, ok := g.Next(); ok; _, _, n, ok = g.Next() {
		sum += uint64(n)
	}
	if sum != math.MaxUint32 {
		t.Errorf("%d octets", sum)
	}
}
