package buf

// Ring is a FIFO that grows as needed and keeps its memory while that is small. The zero value is
// empty.
type Ring[T any] struct {
	buf    []T // len is 0 or a power of two
	head   int // index of the first element
	n      int
	Pooled *Pooled[T] // provides large memory and takes it back; may be nil
	box    *[]T       // what buf came in from there, nil if from elsewhere
	small  []T        // the ring's own memory while buf is large
}

// RingKeep is the capacity that an empty ring keeps: an idle connection holds memory for that many
// elements, and that of a burst is given back.
const RingKeep = 16

// Len returns the number of elements.
func (r *Ring[T]) Len() int { return r.n }

// At returns element i, 0 being the first. The pointer is valid until the next
// push.
func (r *Ring[T]) At(i int) *T { return &r.buf[(r.head+i)&(len(r.buf)-1)] }

// Push appends v.
func (r *Ring[T]) Push(v T) { *r.Add() = v }

// Add appends a zero element and returns its address, so that large elements can be filled in place.
func (r *Ring[T]) Add() *T {
	if r.n == len(r.buf) {
		r.grow()
	}
	r.n++
	return r.At(r.n - 1) // unused elements are zero
}

// Pop removes and returns the first element; the ring must not be empty.
func (r *Ring[T]) Pop() (v T) {
	r.PopTo(&v)
	return v
}

// PopTo is pop for large elements.
func (r *Ring[T]) PopTo(v *T) {
	var zero T
	p := &r.buf[r.head]
	*v = *p
	*p = zero // drop the references; in one statement with the line before, the copy would go through the stack
	r.head = (r.head + 1) & (len(r.buf) - 1)
	r.n--
}

// Remove removes element i.
func (r *Ring[T]) Remove(i int) {
	for ; i > 0; i-- {
		*r.At(i) = *r.At(i - 1)
	}
	r.Pop()
}

// Trim gives back the memory that an empty ring does not need.
func (r *Ring[T]) Trim() {
	if r.n == 0 && len(r.buf) > RingKeep {
		r.Pooled.Put(r.box)
		*r = Ring[T]{Pooled: r.Pooled, buf: r.small}
	}
}

func (r *Ring[T]) grow() {
	next, box := r.Pooled.Get(max(4, 2*len(r.buf)))
	for i := range r.n {
		next[i] = *r.At(i)
	}
	clear(r.buf)
	r.Pooled.Put(r.box)
	if len(r.buf) == RingKeep {
		r.small = r.buf
	}
	r.buf, r.head, r.box = next, 0, box
}
