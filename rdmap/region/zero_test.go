package region_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
)

// A peer that has no STag to send sends STag 0, which never matches a free entry.
func TestSTagZeroUnderLoad(t *testing.T) {
	tab := region.NewTable()
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for !stop.Load() {
				if err := try(tab, 0, 0, 0, 0); err == nil {
					t.Error("STag 0 found")
					return
				}
				_ = tab.RemoteInvalidate(0)
			}
		})
	}
	for range 5000 {
		r := register(t, tab, make([]byte, 8), region.RemoteWrite|region.RemoteInvalidate)
		if !r.Valid() {
			t.Fatal("not valid")
		}
		invalidate(t, r)
	}
	stop.Store(true)
	wg.Wait()
	if tab.Live() != 0 {
		t.Errorf("%d live", tab.Live())
	}
}
