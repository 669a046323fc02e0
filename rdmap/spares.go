package rdmap

import "sync"

// spareLen is the length of the slices in spares, enough for a burst.
const spareLen = 128

// spares keeps the memory of queues that a burst has filled and emptied, for the next burst of any
// connection. So an idle connection holds none of it, and a busy one allocates none. A nil *spares
// keeps nothing. It is safe for concurrent use.
type spares[T any] struct{ pool sync.Pool }

var (
	itemSpares  spares[item]
	readSpares  spares[outRead]
	orderSpares spares[pendingCompletion]
)

// useSpares lets the queues of a sender use the shared spares.
func (s *sender) useSpares() {
	s.sq.spare, s.rq.spare, s.reads.spare, s.order.q.spare = &itemSpares, &itemSpares, &readSpares, &orderSpares
}

// get returns a zeroed slice of at least n elements, whose length is a power of two if n is, and the
// box to give to put later, nil if there is none.
func (p *spares[T]) get(n int) ([]T, *[]T) {
	if p == nil || n <= ringKeep || n > spareLen {
		return make([]T, n), nil
	}
	box, _ := p.pool.Get().(*[]T)
	if box == nil {
		b := make([]T, spareLen)
		box = &b
	}
	return *box, box
}

// put takes a box back. Its slice must be zeroed.
func (p *spares[T]) put(box *[]T) {
	if p != nil && box != nil {
		p.pool.Put(box)
	}
}
