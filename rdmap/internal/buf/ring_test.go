package buf

import "testing"

// TestRingSpares runs bursts of many sizes through rings that share spare memory: what goes in comes out, and memory
// that is passed on holds nothing of its former content.
func TestRingSpares(t *testing.T) {
	var sp Pooled[int]
	rings := [2]Ring[int]{{Pooled: &sp}, {Pooled: &sp}}
	for size := 1; size < 3*PooledLen; size = size*3/2 + 1 {
		for i := range rings {
			r := &rings[i]
			for k := range size {
				if v := r.Add(); *v != 0 {
					t.Fatalf("burst of %d: add returned an element that is not zero", size)
				} else {
					*v = k + 1
				}
			}
			for k := range size {
				if got := r.Pop(); got != k+1 {
					t.Fatalf("burst of %d: element %d is %d", size, k, got)
				}
			}
			for _, v := range r.buf {
				if v != 0 {
					t.Fatalf("burst of %d: memory is not clear", size)
				}
			}
			r.Trim()
			if len(r.buf) > RingKeep || r.box != nil {
				t.Fatalf("burst of %d: %d elements kept", size, len(r.buf))
			}
		}
	}
}
