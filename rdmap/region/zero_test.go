package region

import (
	"sync"
	"sync/atomic"
	"testing"
)

// A peer that has no STag to send sends STag 0. It must never match a free entry: a lookup that loaded a slot just
// before the entry was freed would pin it, and the next registration would overwrite that pin.
func TestSTagZeroNeverPins(t *testing.T) {
	tab := NewTable()
	r := register(t, tab, make([]byte, 8), RemoteWrite)
	invalidate(t, r)
	if r.e.pin(0) {
		t.Error("a free entry was pinned")
	}
	if r.e.revoke(0) {
		t.Error("a free entry was revoked")
	}
}

func TestSTagZeroUnderLoad(t *testing.T) {
	tab := NewTable()
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for !stop.Load() {
				if err := try(tab, 0, 0, 0, 0); err == nil {
					t.Error("STag 0 found")
					return
				}
				_ = tab.RemoteInvalidate(0)
			}
		})
	}
	for range 5000 {
		r := register(t, tab, make([]byte, 8), RemoteWrite|RemoteInvalidate)
		if !r.Valid() {
			t.Fatal("not valid")
		}
		invalidate(t, r)
	}
	stop.Store(true)
	wg.Wait()
	if tab.Live() != 0 {
		t.Errorf("%d live", tab.Live())
	}
}
