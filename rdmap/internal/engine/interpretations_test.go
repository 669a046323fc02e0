package engine_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
)

// ownWord registers a word in e.
func ownWord(t *testing.T, e *halves, v uint64, a region.Access) (*uint64, region.STag) {
	t.Helper()
	mem, p := rdmaptest.Word(v)
	reg := must(e.snd.Table.Register(mem, a))(t)
	return p, reg.STag()
}

// TestMaskedCmpSwap compares with an oracle that works bit by bit.
func TestMaskedCmpSwap(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	rnd := rand.New(rand.NewPCG(seed, 2))
	e := newEngine(engineConfig{})
	p, stag := ownWord(t, e, 0, region.Atomic)
	some := func() uint64 {
		return []uint64{0, ones, 1, 1 << 63, rnd.Uint64(), rnd.Uint64() & rnd.Uint64()}[rnd.IntN(6)]
	}
	for range 20000 {
		old, swap, swapMask, cmp, cmpMask := some(), some(), some(), some(), some()
		if rnd.IntN(2) == 0 {
			cmp = old ^ some()&^cmpMask // equal where it counts
		}
		equal, want := true, old
		for bit := uint64(1); bit != 0; bit <<= 1 {
			equal = equal && (cmpMask&bit == 0 || cmp&bit == old&bit)
		}
		for bit := uint64(1); bit != 0 && equal; bit <<= 1 {
			if swapMask&bit != 0 {
				want = want&^bit | swap&bit
			}
		}
		*p = old
		view := must(e.snd.Table.Lookup(stag, 0, 8, region.Atomic))(t)
		got, err := view.CmpSwap(cmp, cmpMask, swap, swapMask)
		view.Release()
		if err != nil || got != old || *p != want {
			t.Fatalf("%x: swap %x/%x, compare %x/%x: returned %x, left %x, want %x, %v", old, swap, swapMask, cmp, cmpMask, got, *p, want, err)
		}
	}
}
