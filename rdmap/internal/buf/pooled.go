package buf

import "sync"

// PooledLen is the length of the slices in a Pooled, enough for a burst.
const PooledLen = 128

// Pooled keeps the memory of queues that a burst has filled and emptied, for the next burst of any
// connection. So an idle connection holds none of it, and a busy one allocates none. A nil *Pooled
// keeps nothing. It is safe for concurrent use.
type Pooled[T any] struct{ pool sync.Pool }

// Get returns a zeroed slice of at least n elements, whose length is a power of two if n is, and the
// box to give to put later, nil if there is none.
func (p *Pooled[T]) Get(n int) ([]T, *[]T) {
	if p == nil || n <= RingKeep || n > PooledLen {
		return make([]T, n), nil
	}
	box, _ := p.pool.Get().(*[]T)
	if box == nil {
		b := make([]T, PooledLen)
		box = &b
	}
	return *box, box
}

// Put takes a box back. Its slice must be zeroed.
func (p *Pooled[T]) Put(box *[]T) {
	if p != nil && box != nil {
		p.pool.Put(box)
	}
}
