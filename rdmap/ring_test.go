package rdmap

import "testing"

// TestRingSpares runs bursts of many sizes through rings that share spare memory: what goes in comes out, and memory
// that is passed on holds nothing of its former content.
func TestRingSpares(t *testing.T) {
	var sp spares[int]
	rings := [2]ring[int]{{spare: &sp}, {spare: &sp}}
	for size := 1; size < 3*spareLen; size = size*3/2 + 1 {
		for i := range rings {
			r := &rings[i]
			for k := range size {
				if v := r.add(); *v != 0 {
					t.Fatalf("burst of %d: add returned an element that is not zero", size)
				} else {
					*v = k + 1
				}
			}
			for k := range size {
				if got := r.pop(); got != k+1 {
					t.Fatalf("burst of %d: element %d is %d", size, k, got)
				}
			}
			for _, v := range r.buf {
				if v != 0 {
					t.Fatalf("burst of %d: memory is not clear", size)
				}
			}
			r.trim()
			if len(r.buf) > ringKeep || r.box != nil {
				t.Fatalf("burst of %d: %d elements kept", size, len(r.buf))
			}
		}
	}
}

// TestWorkSpares does the same for the items of a batch.
func TestWorkSpares(t *testing.T) {
	var w work
	w.slots = nil
	for size := 1; size < 3*spareLen; size = size*3/2 + 1 {
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
		if cap(w.items) > ringKeep {
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
