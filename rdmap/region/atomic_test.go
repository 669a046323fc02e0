package region_test

import (
	"sync"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
)

// TestAtomicInDomains: each value of a word is returned once, whichever domain adds to it, even while others add
// to it (ADVERSARY 15, 28). It runs until they have collided often.
func TestAtomicInDomains(t *testing.T) {
	const adders, most = 4, 1 << 20
	mem := make(region.Bytes, 8)
	var seen [adders][]uint64
	var wg sync.WaitGroup
	for i := range adders {
		tab := region.NewTable()
		r := must(tab.RegisterMemory(mem, region.Options{Access: region.Atomic}))(t)
		wg.Go(func() {
			v, err := tab.Lookup(r.STag(), 0, 8, region.Atomic)
			if err != nil {
				t.Error(err)
				return
			}
			defer v.Release()
			for met := 0; met < 1000 && len(seen[i]) < most; {
				old, err := v.FetchAdd(1, 0)
				if err != nil {
					t.Error(err)
					return
				}
				if n := len(seen[i]); n > 0 && old != seen[i][n-1]+1 {
					met++
				}
				seen[i] = append(seen[i], old)
			}
		})
	}
	wg.Wait()
	got := make(map[uint64]bool)
	for _, olds := range seen {
		for _, old := range olds {
			if got[old] {
				t.Fatalf("the value %d was returned twice", old)
			}
			got[old] = true
		}
	}
}
