package measure

import (
	"sync"
	"time"
)

// Rate lets k goroutines call f for dur, each with its number from 0 to k-1, and returns the calls
// a second of all together, and the first error. An error ends its goroutine.
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

// MedianOf returns the median time of n calls of f, microseconds, and the first error.
func MedianOf(n int, f func() error) (float64, error) {
	t := make([]float64, n)
	for i := range t {
		start := time.Now()
		if err := f(); err != nil {
			return 0, err
		}
		t[i] = float64(time.Since(start).Nanoseconds()) / 1e3
	}
	return Median(t), nil
}
