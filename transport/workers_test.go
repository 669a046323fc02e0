package transport

import (
	"sync"
	"testing"

	"github.com/stag-rdma/stag/transport/internal/responder"
	"github.com/stag-rdma/stag/transport/rpc"
)

// TestWorkersBeside: calls that block stand in nobody's way, however many come in one
// burst, and leave no worker behind.
func TestWorkersBeside(t *testing.T) {
	const n = 32
	h := newEcho()
	_, c := pair(t, h, nil, nil)
	mustDo(t, c, &nullCall)
	block := rpc.Call{Prog: testProg, Vers: testVers, Proc: procBlock}
	for range 3 {
		var calls sync.WaitGroup
		for range n {
			calls.Go(func() {
				if err := try(t, c, &block); err != nil {
					t.Error(err)
				}
			})
		}
		for range n { // all run, before any has ended
			<-h.enter
		}
		for range n {
			h.leave <- struct{}{}
		}
		calls.Wait()
	}
}

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
		if got := w.take(nil, false); got != &xs[i] || got.Next != nil {
			t.Fatalf("call %d: got %p, want %p alone", i, got, &xs[i])
		}
		if !w.coming {
			t.Fatalf("call %d: no worker is coming", i)
		}
	}
	if w.take(nil, true) != nil || w.coming || w.last != nil {
		t.Fatalf("no call is left, and no worker: %+v", &w)
	}
}
