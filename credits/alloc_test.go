package credits_test

import (
	"testing"

	"github.com/stag-rdma/stag/credits"
)

func TestNoAllocs(t *testing.T) {
	q, p := credits.NewRequester(8), credits.NewResponder(8)
	post(&p)
	n := testing.AllocsPerRun(100, func() {
		q.Take()
		p.Received()
		post(&p)
		q.Grant(p.Grant(q.Request()))
		q.Release()
		if p.Check() != nil {
			t.Error("the invariant broke")
		}
	})
	if n != 0 {
		t.Errorf("%v allocations for one call, want 0", n)
	}
}
