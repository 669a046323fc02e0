package flush_test

import (
	"errors"
	"fmt"

	"github.com/stag-rdma/stag/internal/flush"
	"github.com/stag-rdma/stag/rdmap/region"
)

// A memory whose disk fails once: the error is final.
func Example() {
	broken := errors.New("the disk is broken")
	f := flush.New(flush.Config{Commit: func(rs []region.Range) error {
		if rs[0].Off == 64 {
			return broken
		}
		return nil
	}})
	if f.Enter() { // as each call of the memory does
		fmt.Println(f.Persist([]region.Range{{Off: 0, N: 8}}))
		fmt.Println(f.Persist([]region.Range{{Off: 64, N: 8}}))
		fmt.Println(f.Persist([]region.Range{{Off: 0, N: 8}}))
		f.Leave()
	}
	fmt.Println(f.Close(0), f.Enter(), flush.Pinned())
	// Output:
	// <nil>
	// the disk is broken
	// the disk is broken
	// true false 0
}
