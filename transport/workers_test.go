package transport_test

import (
	"sync"
	"testing"

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
