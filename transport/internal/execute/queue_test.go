package execute

import (
	"math/rand/v2"
	"testing"

	"github.com/stag-rdma/stag/internal/callid"
)

// model is a queue without anything that makes it fast.
type model []*Entry

func (m model) excess(addr string, limit int) *Entry {
	n, most := 0, 0
	of := map[callid.Client]int{}
	for _, r := range m {
		if r.key.Client.Addr == addr {
			n++
			of[r.key.Client]++
			most = max(most, of[r.key.Client])
		}
	}
	for _, r := range m {
		if n > limit && r.key.Client.Addr == addr && of[r.key.Client] == most {
			return r
		}
	}
	return nil
}

func (m model) without(r *Entry) model {
	for i := range m {
		if m[i] == r {
			return append(m[:i:i], m[i+1:]...)
		}
	}
	panic("not in the model")
}

// TestModel compares a queue with a list that is searched from its beginning.
func TestQueueModel(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		q, m := newQueue(), model(nil)
		for step := range 2000 {
			r := new(Entry)
			r.key.Client = callid.Client{Addr: string(rune('a' + rnd.IntN(3))), Cred: string(rune('m' + min(rnd.IntN(4), rnd.IntN(4))))}
			q.Add(r, r.key.Client.Addr)
			m = append(m, r)
			for limit := rnd.IntN(12); ; {
				got, want := q.Excess(r.key.Client.Addr, limit), m.excess(r.key.Client.Addr, limit)
				if want == nil {
					if got != nil {
						t.Fatalf("seed %d, step %d: %v has to go, want none", seed, step, got.key.Client)
					}
					break
				}
				if got != want {
					t.Fatalf("seed %d, step %d: %v has to go, want %v", seed, step, got, want.key.Client)
				}
				q.Remove(got)
				m = m.without(want)
			}
			if rnd.IntN(3) == 0 && len(m) > 0 {
				any := m[rnd.IntN(len(m))]
				q.Remove(any)
				q.Remove(any)
				m = m.without(any)
			}
			for rnd.IntN(3) == 0 && len(m) > 0 {
				if got := q.items.First(); got != m[0] {
					t.Fatalf("seed %d, step %d: the oldest is not the first", seed, step)
				}
				q.Remove(q.items.First())
				m = m[1:]
			}
			if q.items.Len() != len(m) || (q.items.First() == nil) != (len(m) == 0) {
				t.Fatalf("seed %d, step %d: %d items, want %d", seed, step, q.items.Len(), len(m))
			}
		}
		for q.items.Len() > 0 {
			q.Remove(q.items.First())
		}
		if len(q.addrs) != 0 || len(q.shares) != 0 {
			t.Errorf("seed %d: an empty queue remembers %d addresses, %d clients", seed, len(q.addrs), len(q.shares))
		}
	}
}
