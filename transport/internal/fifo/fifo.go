package fifo

// Queue is a queue of elements that contain their links, so that entering and leaving it, anywhere,
// allocates nothing. An E is in one queue at a time.
type Queue[E any, P Linked[E]] struct{ head, tail P }

// Linked is a pointer to an element that has a place for its links.
type Linked[E any] interface {
	*E
	Links() *Links[E]
}

// Links are the links of an element in a Queue.
type Links[E any] struct {
	prev, next *E
	queued     bool
}

// Empty reports whether there is no element.
func (q *Queue[E, P]) Empty() bool { return q.head == nil }

// First returns the first element, nil if there is none.
func (q *Queue[E, P]) First() P { return q.head }

// Len counts the elements.
func (q *Queue[E, P]) Len() (n int) {
	for e := q.head; e != nil; e = e.Links().next {
		n++
	}
	return n
}

// Push adds e, which is in no queue, at the end.
func (q *Queue[E, P]) Push(e P) {
	*e.Links() = Links[E]{prev: q.tail, queued: true}
	if q.tail == nil {
		q.head = e
	} else {
		q.tail.Links().next = e
	}
	q.tail = e
}

// Pop removes the first element, nil if there is none.
func (q *Queue[E, P]) Pop() P {
	e := q.head
	if e != nil {
		q.Remove(e)
	}
	return e
}

// Remove takes e out; it does nothing if e is not queued.
func (q *Queue[E, P]) Remove(e P) {
	l := e.Links()
	if !l.queued {
		return
	}
	if l.prev == nil {
		q.head = l.next
	} else {
		P(l.prev).Links().next = l.next
	}
	if l.next == nil {
		q.tail = l.prev
	} else {
		P(l.next).Links().prev = l.prev
	}
	*l = Links[E]{}
}
