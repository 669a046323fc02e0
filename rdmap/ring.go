package rdmap

// ring is a FIFO that grows as needed and keeps its memory while small. The zero
// value is empty.
type ring[T any] struct {
	buf   []T // len is 0 or a power of two
	head  int // index of the first element
	n     int
	spare *spares[T] // where large memory comes from and goes to; may be nil
	box   *[]T       // what buf came in from there, nil if from elsewhere
	small []T        // the ring's own memory while buf is large
}

// ringKeep is the capacity that an empty ring keeps: an idle connection holds
// this many elements' memory, a burst's worth is given back.
const ringKeep = 16

func (r *ring[T]) len() int { return r.n }

// at returns element i, 0 being the first. The pointer is valid until the next
// push.
func (r *ring[T]) at(i int) *T { return &r.buf[(r.head+i)&(len(r.buf)-1)] }

// push appends v.
func (r *ring[T]) push(v T) { *r.add() = v }

// add appends a zero element and returns where it lies: large ones are filled in place.
func (r *ring[T]) add() *T {
	if r.n == len(r.buf) {
		r.grow()
	}
	r.n++
	return r.at(r.n - 1) // what is in no use is zero
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
	*v, *p = *p, zero // drop the references
	r.head = (r.head + 1) & (len(r.buf) - 1)
	r.n--
}

// remove takes element i out.
func (r *ring[T]) remove(i int) {
	for ; i > 0; i-- {
		*r.at(i) = *r.at(i - 1)
	}
	r.pop()
}

// trim gives the memory back that an empty ring does not need.
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
