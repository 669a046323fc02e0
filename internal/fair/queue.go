package fair

import "container/heap"

// Queue holds items, the oldest first. C names a client. The zero value is not ready: see New.
// A Queue is not safe for concurrent use.
type Queue[C comparable, V any] struct {
	oldest, newest *Item[C, V]
	n              int
	added          uint64 // ever
	addrs          map[string]*address[C, V]
	shares         map[C]*share[C, V]
}

// Item is one item of a Queue. Its owner allocates it, usually as a field of Value.
type Item[C comparable, V any] struct {
	Value V

	prev, next *Item[C, V] // of all, by age
	later      *Item[C, V] // the next younger one of the same client
	of         *share[C, V]
	nth        uint64 // of all that were ever added
}

// New returns an empty queue.
func New[C comparable, V any]() *Queue[C, V] {
	return &Queue[C, V]{addrs: make(map[string]*address[C, V]), shares: make(map[C]*share[C, V])}
}

// Len returns the number of items.
func (q *Queue[C, V]) Len() int { return q.n }

// Oldest returns the oldest item, nil if there is none.
func (q *Queue[C, V]) Oldest() *Item[C, V] { return q.oldest }

// Excess returns the item that has to go if addr has more than limit items: the oldest one of
// the client there that has the most. It returns nil if addr has at most limit.
func (q *Queue[C, V]) Excess(addr string, limit int) *Item[C, V] {
	a := q.addrs[addr]
	if a == nil || a.n <= max(limit, 0) {
		return nil
	}
	return a.clients[0].oldest
}

// Add appends it, which is in no queue, as the newest item. It belongs to client. A client has
// the same addr in all calls.
func (q *Queue[C, V]) Add(it *Item[C, V], client C, addr string) {
	if it.prev = q.newest; it.prev == nil {
		q.oldest = it
	} else {
		it.prev.next = it
	}
	q.newest = it
	q.n++
	q.added++
	it.nth = q.added
	q.shareOf(client, addr).push(it)
}

// Remove takes out an item that Oldest or Excess has returned: it is the oldest of its client.
func (q *Queue[C, V]) Remove(it *Item[C, V]) {
	if it.prev == nil {
		q.oldest = it.next
	} else {
		it.prev.next = it.next
	}
	if it.next == nil {
		q.newest = it.prev
	} else {
		it.next.prev = it.prev
	}
	q.n--
	s := it.of
	if s.pop(); s.n == 0 {
		delete(q.shares, s.client)
	}
	if s.of.n == 0 {
		delete(q.addrs, s.of.addr)
	}
	*it = Item[C, V]{Value: it.Value}
}

// shareOf returns the share of a client, which is new if it has no items.
func (q *Queue[C, V]) shareOf(client C, addr string) *share[C, V] {
	if s := q.shares[client]; s != nil {
		return s
	}
	a := q.addrs[addr]
	if a == nil {
		a = &address[C, V]{addr: addr}
		q.addrs[addr] = a
	}
	s := &share[C, V]{client: client, of: a}
	q.shares[client] = s
	return s
}

// share is the items of one client.
type share[C comparable, V any] struct {
	client         C
	of             *address[C, V]
	n              int
	at             int // in of.clients, if n > 0
	oldest, newest *Item[C, V]
}

func (s *share[C, V]) push(it *Item[C, V]) {
	if it.of = s; s.newest == nil {
		s.oldest = it
	} else {
		s.newest.later = it
	}
	s.newest = it
	s.n++
	s.of.n++
	if s.n > 1 {
		heap.Fix(&s.of.clients, s.at)
		return
	}
	heap.Push(&s.of.clients, s)
}

// pop takes out the oldest item.
func (s *share[C, V]) pop() {
	s.n--
	s.of.n--
	if s.n == 0 {
		heap.Remove(&s.of.clients, s.at)
		return
	}
	s.oldest = s.oldest.later
	heap.Fix(&s.of.clients, s.at)
}
