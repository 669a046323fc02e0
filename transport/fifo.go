package transport

// fifo is a queue of elements that contain their links, so that entering and leaving it, anywhere,
// allocates nothing. An E is in one queue at a time.
type fifo[E any, P linked[E]] struct{ head, tail P }

// linked is a pointer to an element that has a place for its links.
type linked[E any] interface {
	*E
	links() *links[E]
}

// links are the links of an element in a fifo.
type links[E any] struct {
	prev, next *E
	queued     bool
}

func (q *fifo[E, P]) empty() bool { return q.head == nil }

// push adds e, which is in no queue, at the end.
func (q *fifo[E, P]) push(e P) {
	*e.links() = links[E]{prev: q.tail, queued: true}
	if q.tail == nil {
		q.head = e
	} else {
		q.tail.links().next = e
	}
	q.tail = e
}

// pop removes the first element, nil if there is none.
func (q *fifo[E, P]) pop() P {
	e := q.head
	if e != nil {
		q.remove(e)
	}
	return e
}

// remove takes e out; it does nothing if e is not queued.
func (q *fifo[E, P]) remove(e P) {
	l := e.links()
	if !l.queued {
		return
	}
	if l.prev == nil {
		q.head = l.next
	} else {
		P(l.prev).links().next = l.next
	}
	if l.next == nil {
		q.tail = l.prev
	} else {
		P(l.next).links().prev = l.prev
	}
	*l = links[E]{}
}
