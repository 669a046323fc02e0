package transport

import (
	"testing"

	"github.com/stag-rdma/stag/transport/internal/responder"
)

// TestWorkersTakeUp: a worker takes up what waits, and another one is sent for when there
// is more than that.
func TestWorkersTakeUp(t *testing.T) {
	var w workers
	var xs [3]responder.Call
	w.coming = true // nobody is made for this test
	for i := range xs {
		w.add(nil, &xs[i])
	}
	for i := range xs {
		w.coming = true // as if the next one had not come yet
		if got := w.take(nil, false); got != &xs[i] || got.Place.Queued() {
			t.Fatalf("call %d: got %p, want %p alone", i, got, &xs[i])
		}
		if !w.coming {
			t.Fatalf("call %d: no worker is coming", i)
		}
	}
	if w.take(nil, true) != nil || w.coming || w.calls.Len() != 0 {
		t.Fatalf("no call is left, and no worker: %+v", &w)
	}
}
