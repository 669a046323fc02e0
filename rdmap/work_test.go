package rdmap

import (
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
)

// TestWorkSpares runs batches of many sizes: memory that is passed on holds nothing of its former content.
func TestWorkSpares(t *testing.T) {
	var w engine.Work
	w.Slots = nil
	for size := 1; size < 3*buf.PooledLen; size = size*3/2 + 1 {
		for k := range size {
			w.Add().Octets = uint32(k + 1)
		}
		for k := range w.Items {
			if w.Items[k].Octets != uint32(k+1) {
				t.Fatalf("burst of %d: item %d is %d", size, k, w.Items[k].Octets)
			}
		}
		box := w.Box
		w.Drop(size)
		if cap(w.Items) > buf.RingKeep {
			t.Fatalf("burst of %d: room for %d items kept", size, cap(w.Items))
		}
		if box == nil {
			continue
		}
		for _, it := range *box {
			if it.Octets != 0 {
				t.Fatalf("burst of %d: memory is not clear", size)
			}
		}
	}
}
