package rdmap_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestAtomicity: two domains, several streams and local users add to one word
// (ADVERSARY 28).
func TestAtomicity(t *testing.T) {
	mem, p := rdmaptest.Word(0)
	const streams, each = 4, 100
	var wg sync.WaitGroup
	for range streams {
		a, b := rdmaptest.Pipe()
		cfg := &rdmap.Config{Startup: rdmap.Startup{Extensions: verbs.Ext7306}}
		x, y := rdmaptest.Connect(t, a, b, cfg, cfg)
		reg := must(y.Register(mem, region.Atomic))(t)
		go y.Serve()
		wg.Go(func() {
			for range each {
				if _, err := x.FetchAdd(t.Context(), reg.STag(), 0, 1, 0); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Go(func() {
		for range each {
			atomic.AddUint64(p, 1)
		}
	})
	wg.Wait()
	if got := atomic.LoadUint64(p); got != (streams+1)*each {
		t.Fatalf("%d", got)
	}
}
