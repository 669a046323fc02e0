package replies

import (
	"testing"
)

// A server that names records that never come costs a bounded amount of memory, and so do
// records that it never names.
func TestImmediateHostile(t *testing.T) {
	var m mail
	for n := range uint64(2 * mostWaiting) {
		if m.named(n+1, func([]byte) {}) != nil {
			t.Fatal("a reply that has not come")
		}
	}
	if len(m.waiting) != mostWaiting {
		t.Errorf("%d calls are still waited for", len(m.waiting))
	}
	clear(m.waiting)
	for n := uint64(1); n < 1000; n++ {
		if m.arrived(&Record{Seq: n}, n-1, true) != nil {
			t.Fatal("somebody waits")
		}
	}
	if len(m.replies) != 1 {
		t.Errorf("%d replies are kept although nobody needs them", len(m.replies))
	}
}
