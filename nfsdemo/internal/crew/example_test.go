package crew_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/stag-rdma/stag/nfsdemo/internal/crew"
)

// A tree of 10 directories with 10 files each.
func ExampleCrew() {
	c := crew.New(4, 1000)
	var files atomic.Int64
	var walk func(depth int)
	walk = func(depth int) {
		var wg sync.WaitGroup
		defer wg.Wait()
		for range 10 {
			if !c.Name() {
				return // too many
			}
			if depth == 0 {
				c.Dir(&wg, func() { walk(1) })
			} else if err := c.File(context.Background(), &wg, func() { files.Add(1) }); err != nil {
				return // interrupted
			}
		}
	}
	walk(0)
	fmt.Println(files.Load())
	// Output: 100
}
