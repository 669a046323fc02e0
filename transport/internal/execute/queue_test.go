package execute

import (
	"math/rand/v2"
	"testing"
)

type client struct{ addr, name string }

type reply struct {
	of    client
	place item[client, *reply]
}

// model is a queue without anything that makes it fast.
type model []*reply

func (m model) excess(addr string, limit int) *reply {
	n, most := 0, 0
	of := map[client]int{}
	for _, r := range m {
		if r.of.addr == addr {
			n++
			of[r.of]++
			most = max(most, of[r.of])
		}
	}
	for _, r := range m {
		if n > limit && r.of.addr == addr && of[r.of] == most {
			return r
		}
	}
	return nil
}

func (m model) without(r *reply) model {
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
		q, m := newQueue[client, *reply](), model(nil)
		for step := range 2000 {
			r := &reply{of: client{string(rune('a' + rnd.IntN(3))), string(rune('m' + min(rnd.IntN(4), rnd.IntN(4))))}}
			r.place.Value = r
			q.Add(&r.place, r.of, r.of.addr)
			m = append(m, r)
			for limit := rnd.IntN(12); ; {
				got, want := q.Excess(r.of.addr, limit), m.excess(r.of.addr, limit)
				if want == nil {
					if got != nil {
						t.Fatalf("seed %d, step %d: %v has to go, want none", seed, step, got.Value.of)
					}
					break
				}
				if got == nil || got.Value != want {
					t.Fatalf("seed %d, step %d: %v has to go, want %v", seed, step, got, want.of)
				}
				q.Remove(got)
				m = m.without(want)
			}
			if rnd.IntN(3) == 0 && len(m) > 0 {
				any := m[rnd.IntN(len(m))]
				q.Remove(&any.place)
				q.Remove(&any.place)
				m = m.without(any)
			}
			for rnd.IntN(3) == 0 && len(m) > 0 {
				if got := q.Oldest(); got.Value != m[0] {
					t.Fatalf("seed %d, step %d: the oldest is not the first", seed, step)
				}
				q.Remove(q.Oldest())
				m = m[1:]
			}
			if q.Len() != len(m) || (q.Oldest() == nil) != (len(m) == 0) {
				t.Fatalf("seed %d, step %d: %d items, want %d", seed, step, q.Len(), len(m))
			}
		}
		for q.Len() > 0 {
			q.Remove(q.Oldest())
		}
		if len(q.addrs) != 0 || len(q.shares) != 0 {
			t.Errorf("seed %d: an empty queue remembers %d addresses, %d clients", seed, len(q.addrs), len(q.shares))
		}
	}
}
