package rdmap

// ring is a FIFO that grows as needed and keeps its memory while that is small. The zero value is
// empty.
type ring[T any] struct {
	buf   []T // len is 0 or a power of two
	head  int // index of the first element
	n     int
	spare *spares[T] // provides large memory and takes it back; may be nil
	box   *[]T       // what buf came in from there, nil if from elsewhere
	small []T        // the ring's own memory while buf is large
}

// ringKeep is the capacity that an empty ring keeps: an idle connection holds memory for that many
// elements, and that of a burst is given back.
const ringKeep = 16

func (r *ring[T]) len() int { return r.n }

// at returns element i, 0 being the first. The pointer is valid until the next
// push.
func (r *ring[T]) at(i int) *T { return &r.buf[(r.head+i)&(len(r.buf)-1)] }

// push appends v.
func (r *ring[T]) push(v T) { *r.add() = v }

// add appends a zero element and returns its address, so that large elements can be filled in place.
func (r *ring[T]) add() *T {
	if r.n == len(r.buf) {
		r.grow()
	}
	r.n++
	return r.at(r.n - 1) // unused elements are zero
}

// pop removes and returns the first element; the ring must not be empty.
func (r *ring[T]) pop() (v T) {
	r.popTo(&v)
	return v
}

// popTo is pop for large elements.
func (r *ring[T]) popTo(v *T) {
	var zero T
	p := &r.buf[r.head]
	*v = *p
	*p = zero // drop the references; in one statement with the line before, the copy would go through the stack
	r.head = (r.head + 1) & (len(r.buf) - 1)
	r.n--
}

// remove removes element i.
func (r *ring[T]) remove(i int) {
	for ; i > 0; i-- {
		*r.at(i) = *r.at(i - 1)
	}
	r.pop()
}

// trim gives back the memory that an empty ring does not need.
func (r *ring[T]) trim() {
	if r.n == 0 && len(r.buf) > ringKeep {
		r.spare.put(r.box)
		*r = ring[T]{spare: r.spare, buf: r.small}
	}
}

func (r *ring[T]) grow() {
	next, box := r.spare.get(max(4, 2*len(r.buf)))
	for i := range r.n {
		next[i] = *r.at(i)
	}
	clear(r.buf)
	r.spare.put(r.box)
	if len(r.buf) == ringKeep {
		r.small = r.buf
	}
	r.buf, r.head, r.box = next, 0, box
}
