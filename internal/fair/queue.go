package fair

import (
	"container/heap"

	"github.com/stag-rdma/stag/internal/list"
)

// Queue holds items, the oldest first. C names a client. The zero value is not ready: see New.
// A Queue is not safe for concurrent use.
type Queue[C comparable, V any] struct {
	items  list.List[Item[C, V]] // by age
	added  uint64                // ever
	addrs  map[string]*address[C, V]
	shares map[C]*share[C, V]
}

// Item is one item of a Queue. Its owner allocates it, usually as a field of Value.
type Item[C comparable, V any] struct {
	Value V

	all, mine list.Node[Item[C, V]] // of the queue, and of its client
	of        *share[C, V]          // nil: in no queue
	nth       uint64                // of all that were ever added
}

// New returns an empty queue.
func New[C comparable, V any]() *Queue[C, V] {
	return &Queue[C, V]{addrs: make(map[string]*address[C, V]), shares: make(map[C]*share[C, V])}
}

// Len returns the number of items.
func (q *Queue[C, V]) Len() int { return q.items.Len() }

// Oldest returns the oldest item, nil if there is none.
func (q *Queue[C, V]) Oldest() *Item[C, V] { return q.items.First() }

// Excess returns the item that has to go if addr has more than limit items: the oldest one of
// the client there that has the most. It returns nil if addr has at most limit.
func (q *Queue[C, V]) Excess(addr string, limit int) *Item[C, V] {
	a := q.addrs[addr]
	if a == nil || a.n <= max(limit, 0) {
		return nil
	}
	return a.clients[0].items.First()
}

// Add appends it, which is in no queue, as the newest item. It belongs to client. A client has
// the same addr in all calls.
func (q *Queue[C, V]) Add(it *Item[C, V], client C, addr string) {
	s := q.shares[client]
	if s == nil {
		a := q.addrs[addr]
		if a == nil {
			a = &address[C, V]{addr: addr}
			q.addrs[addr] = a
		}
		s = &share[C, V]{client: client, of: a}
		q.shares[client] = s
	}
	q.added++
	it.nth, it.of = q.added, s
	q.items.Push(&it.all, it)
	s.items.Push(&it.mine, it)
	s.of.n++
	if s.items.Len() == 1 {
		heap.Push(&s.of.clients, s)
	} else {
		heap.Fix(&s.of.clients, s.at)
	}
}

// Remove takes out an item, whichever it is. One that is in no queue stays so.
func (q *Queue[C, V]) Remove(it *Item[C, V]) {
	s := it.of
	if s == nil {
		return
	}
	it.all.Leave()
	it.mine.Leave()
	it.of = nil
	if s.of.n--; s.items.Len() > 0 {
		heap.Fix(&s.of.clients, s.at)
		return
	}
	heap.Remove(&s.of.clients, s.at)
	delete(q.shares, s.client)
	if s.of.n == 0 {
		delete(q.addrs, s.of.addr)
	}
}

// share is the items of one client, of which there is at least one.
type share[C comparable, V any] struct {
	client C
	of     *address[C, V]
	at     int // in of.clients
	items  list.List[Item[C, V]]
}
