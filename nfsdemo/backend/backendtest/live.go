package backendtest

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// Live runs f and fails the test if more than most octets of memory were in use at some time meanwhile, besides
// those before.
func Live(t testing.TB, most uint64, f func()) {
	t.Helper()
	look := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, peak := look(), uint64(0)
	var wg sync.WaitGroup
	end := make(chan struct{})
	wg.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			peak = max(peak, look())
			select {
			case <-end:
				return
			case <-tick.C:
			}
		}
	})
	f()
	close(end)
	wg.Wait()
	if peak > before+most {
		t.Errorf("%d MiB in use, want at most %d", (peak-before)>>20, most>>20)
	}
	t.Logf("%d MiB in use at most", (max(peak, before)-before)>>20)
}
