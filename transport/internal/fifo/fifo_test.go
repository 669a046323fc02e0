package fifo_test

import (
	"testing"

	"github.com/stag-rdma/stag/transport/internal/fifo"
)

type element struct{ place fifo.Links[element] }

func (e *element) Links() *fifo.Links[element] { return &e.place }

func TestQueue(t *testing.T) {
	var q fifo.Queue[element, *element]
	calls := make([]element, 5)
	for i := range calls {
		q.Push(&calls[i])
	}
	q.Remove(&calls[0])
	q.Remove(&calls[2])
	q.Remove(&calls[2])
	q.Remove(&calls[4])
	if q.Pop() != &calls[1] || q.Pop() != &calls[3] || q.Pop() != nil || !q.Empty() {
		t.Error("wrong order")
	}
	q.Push(&calls[2])
	if q.Pop() != &calls[2] || !q.Empty() {
		t.Error("not usable after it became empty")
	}
}
