package rdmap

import (
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/buf"
)

// TestWorkSpares runs batches of many sizes: memory that is passed on holds nothing of its former content.
func TestWorkSpares(t *testing.T) {
	var w work
	w.slots = nil
	for size := 1; size < 3*buf.PooledLen; size = size*3/2 + 1 {
		for k := range size {
			w.add().n = uint32(k + 1)
		}
		for k := range w.items {
			if w.items[k].n != uint32(k+1) {
				t.Fatalf("burst of %d: item %d is %d", size, k, w.items[k].n)
			}
		}
		box := w.box
		w.drop(size)
		if cap(w.items) > buf.RingKeep {
			t.Fatalf("burst of %d: room for %d items kept", size, cap(w.items))
		}
		if box == nil {
			continue
		}
		for _, it := range *box {
			if it.n != 0 {
				t.Fatalf("burst of %d: memory is not clear", size)
			}
		}
	}
}
