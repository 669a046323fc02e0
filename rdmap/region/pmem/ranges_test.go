package pmem

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
)

// Compares cover with an oracle that has a bool for every octet.
func TestCover(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		size, unit := 1+r.IntN(200), []int{1, 8, 64}[r.IntN(3)]
		want := make([]bool, size)
		var rs []region.Range
		for range r.IntN(6) {
			off := r.IntN(size + 1)
			x := region.Range{Off: off, N: r.IntN(size - off + 1)}
			rs = append(rs, x)
			for i := x.Off / unit * unit; x.N > 0 && i < size && i < (x.Off+x.N+unit-1)/unit*unit; i++ {
				want[i] = true
			}
		}
		in := slices.Clone(rs)
		got := make([]bool, size)
		last := -1
		for _, x := range cover(rs, unit, size) {
			if x.Off <= last || x.N <= 0 {
				t.Fatalf("cover(%v, %d, %d): %v is not beyond octet %d, or touches it", in, unit, size, x, last)
			}
			last = x.Off + x.N
			for i := x.Off; i < last; i++ {
				got[i] = true
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("cover(%v, %d, %d) is wrong", in, unit, size)
		}
	}
}
