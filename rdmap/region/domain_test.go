package region_test

import (
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
)

// RFC 5040 Section 8.1 asks for STags that are hard to predict and sparse: each of the 24 random bits is set about
// half of the time, and hardly any value is drawn twice.
func TestUnpredictable(t *testing.T) {
	tab := region.NewTable()
	const n = 4096
	var ones [24]int
	seen := map[uint32]bool{}
	for range n {
		r := register(t, tab, nil, 0)
		idx := r.STag().Index()
		seen[idx] = true
		for b := range ones {
			ones[b] += int(idx >> b & 1)
		}
		invalidate(t, r)
	}
	for b, k := range ones {
		if k < n/2-n/8 || k > n/2+n/8 { // 16 standard deviations
			t.Errorf("bit %d set %d times of %d", b, k, n)
		}
	}
	if len(seen) < n-64 {
		t.Errorf("%d different values of %d", len(seen), n)
	}
}
