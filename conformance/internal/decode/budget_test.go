package decode

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/ddp"
)

// TestRanges compares a set of ranges with a slice of bools.
func TestRanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s ranges
		var model [64]bool
		for range rapid.IntRange(0, 20).Draw(t, "adds") {
			from := rapid.IntRange(0, 63).Draw(t, "from")
			to := rapid.IntRange(from, 64).Draw(t, "to")
			s.add(from, to)
			for i := from; i < to; i++ {
				model[i] = true
			}
		}
		for i, r := range s {
			if r[0] >= r[1] || i > 0 && s[i-1][1] >= r[0] {
				t.Fatalf("not ascending, disjoint and apart: %v", s)
			}
		}
		from := rapid.IntRange(0, 64).Draw(t, "test from")
		to := rapid.IntRange(from, 64).Draw(t, "test to")
		want := true
		for i := from; i < to; i++ {
			want = want && model[i]
		}
		if s.covers(from, to) != want {
			t.Fatalf("covers(%d, %d) of %v is %t", from, to, s, !want)
		}
	})
}

func TestRegionIndex(t *testing.T) {
	r := &region{seg: chunks.Segment{Handle: 7, Length: 100, Offset: 1<<64 - 100}}
	for _, tt := range []struct {
		tag ddp.STag
		to  uint64
		n   int
		off int
		ok  bool
	}{
		{7, 1<<64 - 100, 100, 0, true},
		{7, 1<<64 - 1, 1, 99, true},
		{7, 1<<64 - 1, 2, 0, false},
		{7, 1<<64 - 101, 1, 0, false},
		{7, 0, 0, 0, false},
		{8, 1<<64 - 100, 1, 0, false},
		{7, 1<<64 - 50, 51, 0, false},
	} {
		if off, ok := r.index(tt.tag, tt.to, tt.n); off != tt.off || ok != tt.ok {
			t.Errorf("%+v: %d, %t", tt, off, ok)
		}
	}
}

func TestBudget(t *testing.T) {
	mem := &budget{left: 10}
	r := &region{seg: chunks.Segment{Handle: 1, Length: 100}}
	r.place(0, []byte("abcdef"), mem)
	r.place(2, []byte("CD"), mem)
	r.place(6, []byte("ghijk"), mem) // one octet too many: nothing of it is kept
	if b, ok := r.bytes(0, 6); !ok || string(b) != "abCDef" || !r.full || mem.left != 4 {
		t.Errorf("%q, %d octets left", r.data, mem.left)
	}
	if _, ok := r.bytes(0, 7); ok || r.whole() {
		t.Error("octets that were not kept")
	}
	r.free(mem)
	if mem.left != 10 {
		t.Errorf("%d octets left", mem.left)
	}
}
