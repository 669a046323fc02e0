package transport_test

import (
	"sync"
	"testing"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
)

// However many clients there are, the calls that they may have waiting at once take an eighth of Limits.Memory,
// besides one call each: the first are granted Credits, the others share what is left, and a place that is
// given back is taken again.
func TestWaitingCallsBounded(t *testing.T) {
	const clients, most = 40, 16 << 20 / (40 << 10)
	s, addr := served(t, overRDMA, newEcho(), &transport.Config{Credits: 64, Limits: transport.Limits{Memory: 16 << 20}})
	null := func(c rpc.Caller) {
		if err := try(t, c, &nullCall); err != nil {
			t.Error(err)
		}
	}
	dial := func() rpc.Caller {
		c := connect(t, "rdma", addr, nil)
		null(c)
		return c
	}
	var all []rpc.Caller
	for range clients {
		all = append(all, dial())
	}
	if n := all[0].Stats().Credits; n != 64 {
		t.Errorf("the first client has %d credits, want 64", n)
	}
	for range 10 { // with as many callers as there are credits: grants grow where they are used
		var calls sync.WaitGroup
		for _, c := range all {
			for range 16 {
				calls.Go(func() { null(c) })
			}
		}
		calls.Wait()
	}
	sum := 0
	for _, c := range all {
		sum += c.Stats().Credits
	}
	if sum > most+clients {
		t.Errorf("%d clients have %d credits, want at most %d", clients, sum, most+clients)
	}
	if st := s.Stats(); st.PoolCredits != most/2 || st.PoolHeld == 0 || st.PoolHeld > st.PoolCredits {
		t.Errorf("%d of %d credits held, want some of %d", st.PoolHeld, st.PoolCredits, most/2)
	}

	_ = all[0].Close()
	for s.Stats().Connections == clients {
		null(all[1]) // until the server has seen the end
	}
	if all[0] = dial(); all[0].Stats().Credits != 64 {
		t.Errorf("in the place of the first: %d credits, want 64", all[0].Stats().Credits)
	}
}
