package list_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/internal/list"
)

type element struct{ place, other list.Node[element] }

// TestModel compares lists with slices, while elements enter and leave them from anywhere, and while they are in a
// list already.
func TestModel(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var lists [2]list.List[element]
		var models [2][]*element
		elements := make([]element, 8)
		var third list.List[element]
		for step := range 2000 {
			i, e := rnd.IntN(2), &elements[rnd.IntN(len(elements))]
			out := func(e *element) {
				for i := range models {
					models[i] = slices.DeleteFunc(models[i], func(x *element) bool { return x == e })
				}
			}
			switch rnd.IntN(4) {
			case 0, 1:
				lists[i].Push(&e.place, e)
				out(e)
				models[i] = append(models[i], e)
			case 2:
				e.place.Leave()
				out(e)
			case 3:
				if got := lists[i].Pop(); got != nil {
					out(got)
				}
			}
			third.Push(&e.other, e) // another node of the element changes nothing
			for i := range lists {
				l, m := &lists[i], models[i]
				if got := slices.Collect(l.All()); !slices.Equal(got, m) || l.Len() != len(m) {
					t.Fatalf("seed %d, step %d, list %d: %d elements in wrong order, want %d", seed, step, i, l.Len(), len(m))
				}
				for _, e := range m {
					if !e.place.In(l) || !e.place.Queued() || e.place.In(&third) {
						t.Fatalf("seed %d, step %d: an element does not know where it is", seed, step)
					}
				}
			}
		}
		for e := range third.All() {
			e.other.Leave()
		}
		if third.Len() != 0 || third.First() != nil || third.Pop() != nil {
			t.Fatalf("seed %d: %d elements are left", seed, third.Len())
		}
	}
}
