package crew_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stag-rdma/stag/nfsdemo/internal/crew"
)

// TestBounds: no more files run at a time than there are goroutines, whatever the depth.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 3
		c := crew.New(n, 1<<20)
		var now, most, done atomic.Int64
		gate := make(chan struct{})
		var walk func(depth int)
		walk = func(depth int) {
			var wg sync.WaitGroup
			defer wg.Wait()
			for range 4 {
				if depth < 4 {
					c.Dir(&wg, func() { walk(depth + 1) })
					continue
				}
				err := c.File(t.Context(), &wg, func() {
					for k := now.Add(1); ; {
						if m := most.Load(); k <= m || most.CompareAndSwap(m, k) {
							break
						}
					}
					<-gate
					now.Add(-1)
					done.Add(1)
				})
				if err != nil {
					t.Error(err)
				}
			}
		}
		go walk(0)
		synctest.Wait()
		close(gate)
		synctest.Wait()
		if most.Load() != n || done.Load() != 1024 {
			t.Errorf("%d at a time, %d in all; want %d and 1024", most.Load(), done.Load(), n)
		}
	})
}

// TestEnd: what waits for a goroutine ends with its context.
func TestEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := crew.New(1, 0)
		var wg sync.WaitGroup
		gate := make(chan struct{})
		if err := c.File(t.Context(), &wg, func() { <-gate }); err != nil {
			t.Fatal(err)
		}
		cause := errors.New("interrupted")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		if err := c.File(ctx, &wg, func() { t.Error("it ran") }); !errors.Is(err, cause) {
			t.Error(err)
		}
		close(gate)
		wg.Wait()
		if c.Name() {
			t.Error("a name beyond the limit")
		}
	})
}
