package measure

import (
	"sync"
	"time"
)

// Rate has k goroutines call f, which is told which one it is, for dur, and returns the
// calls a second of all of them and the first error.
func Rate(k int, dur time.Duration, f func(i int) error) (float64, error) {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		total int
		first error
	)
	start := time.Now()
	for i := range k {
		wg.Go(func() {
			n := 0
			var err error
			for err == nil && time.Since(start) < dur {
				err = f(i)
				n++
			}
			mu.Lock()
			defer mu.Unlock()
			if total += n; first == nil {
				first = err
			}
		})
	}
	wg.Wait()
	return float64(total) / time.Since(start).Seconds(), first
}
