package server

import (
	"sync"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

func TestStripes(t *testing.T) {
	var s stripes
	a, b := nfs3.FileHandle("aaaa1"), nfs3.FileHandle("bbbb2")
	n := 0
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 200 {
				x, y := a, b
				if i%2 == 0 {
					x, y = b, a
				}
				unlock := s.lock(x, y) // either order: no deadlock
				n++
				unlock()
			}
		})
	}
	wg.Wait()
	s.lock(a, a)()
	s.lock(a, nil)()
	if n != 1600 {
		t.Errorf("%d", n)
	}
}
