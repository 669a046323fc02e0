package buf_test

import (
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/buf"
)

// TestClaims: small claims for which there is room do not pass a large one. A claim that is withdrawn,
// granted or not, leaves its place and its memory to the others.
func TestClaims(t *testing.T) {
	for _, served := range []bool{false, true} {
		pool := buf.NewPool(100)
		var woken [3]chan struct{}
		var claims [3]buf.Claim
		for i := range claims {
			woken[i] = make(chan struct{}, 1)
			claims[i].Wake = func() { woken[i] <- struct{}{} }
		}
		ask := func(i, n int) {
			t.Helper()
			if _, ok := pool.Take(&claims[i], n); ok {
				t.Fatalf("claim %d got %d octets", i, n)
			}
			pool.Wait(&claims[i])
		}
		hog, _ := pool.Get(60)
		ask(0, 90)
		ask(1, 10) // 40 are there
		ask(2, 10)
		if served {
			pool.Put(hog)
			<-woken[0]
			if pool.Load().Octets != 90+10 {
				t.Errorf("%d in use", pool.Load().Octets)
			}
		}
		pool.Leave(&claims[0])
		for i := 1; i < 3; i++ {
			<-woken[i]
			if b, ok := pool.Take(&claims[i], 10); !ok || len(b) != 10 {
				t.Errorf("claim %d: %d octets, %v", i, len(b), ok)
			}
			pool.Leave(&claims[i])
		}
		if used := pool.Load().Octets; served && used != 20 || !served && used != 80 {
			t.Errorf("served %v: %d in use", served, used)
		}
	}
}
