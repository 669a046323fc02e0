package credits_test

import (
	"testing"

	"github.com/stag-rdma/stag/credits"
)

// FuzzResponder drives a responder by any order of calls of its owner that
// posts before it grants, and a peer that sends whenever it likes. A peer
// inside its credits never meets a missing receive; one outside is told apart.
func FuzzResponder(f *testing.F) {
	f.Add(uint32(8), []byte{0, 1, 0, 0, 1, 2, 3, 0})
	f.Add(uint32(0), []byte{0, 0, 0, 1, 1, 1, 5, 5, 4})
	f.Add(uint32(1<<32-1), []byte{3, 255, 0, 1, 3, 0, 0, 1})
	f.Fuzz(func(t *testing.T, limit uint32, ops []byte) {
		p := credits.NewResponder(limit)
		post(&p)
		for _, op := range ops {
			switch op % 6 {
			case 0:
				may := p.Outstanding() > 0
				if p.Received() != may {
					t.Fatalf("Received = %v, want %v", !may, may)
				}
				if !may {
					post(&p) // the connection would end here
				}
			case 1:
				if p.Serving() > 0 {
					post(&p)
					if g := p.Grant(uint32(op) << (op % 25)); g == 0 || g > 1<<20 {
						t.Fatalf("Grant = %d", g)
					}
				}
			case 2:
				p.Expect(int(op))
				post(&p)
			case 3:
				p.SetLimit(uint32(op) - 3)
			case 4:
				post(&p)
				p.Dropped()
			case 5:
				if !p.ReceivedOther() {
					post(&p)
				}
			}
			if err := p.Check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
