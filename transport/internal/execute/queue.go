package execute

import (
	"container/heap"

	"github.com/stag-rdma/stag/internal/list"
)

// queue decides which of the replies that a server keeps have to make room for others: it holds items, the oldest first.
// Items belong to clients, named by C, and several clients may share one address. The oldest of all goes first; but when
// an address has more than its share, the client there that has the most loses its oldest. A slow client thus loses no
// reply to faster ones behind the same address. Every operation takes constant time, or the logarithm of the number of
// clients at one address. The zero value is not ready: see newQueue.
type queue[C comparable, V any] struct {
	items  list.List[item[C, V]] // by age
	added  uint64                // ever
	addrs  map[string]*address[C, V]
	shares map[C]*share[C, V]
}

// item is one item of a queue. Its owner allocates it, usually as a field of Value.
type item[C comparable, V any] struct {
	Value V

	all, mine list.Node[item[C, V]] // of the queue, and of its client
	of        *share[C, V]          // nil: in no queue
	nth       uint64                // of all that were ever added
}

// newQueue returns an empty queue.
func newQueue[C comparable, V any]() *queue[C, V] {
	return &queue[C, V]{addrs: make(map[string]*address[C, V]), shares: make(map[C]*share[C, V])}
}

// Len returns the number of items.
func (q *queue[C, V]) Len() int { return q.items.Len() }

// Oldest returns the oldest item, nil if there is none.
func (q *queue[C, V]) Oldest() *item[C, V] { return q.items.First() }

// Excess returns the item that has to go if addr has more than limit items: the oldest one of
// the client there that has the most. It returns nil if addr has at most limit.
func (q *queue[C, V]) Excess(addr string, limit int) *item[C, V] {
	a := q.addrs[addr]
	if a == nil || a.n <= max(limit, 0) {
		return nil
	}
	return a.clients[0].items.First()
}

// Add appends it, which is in no queue, as the newest item. It belongs to client. A client has
// the same addr in all calls.
func (q *queue[C, V]) Add(it *item[C, V], client C, addr string) {
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
	q.added++ // the age by number: two may come in one instant
	it.nth, it.of = q.added, s
	q.items.Push(&it.all, it)
	s.items.Push(&it.mine, it)
	s.of.n++
	if s.items.Len() == 1 { // it was not in the heap, which has no clients without items
		heap.Push(&s.of.clients, s)
	} else {
		heap.Fix(&s.of.clients, s.at)
	}
}

// Remove takes out an item, whichever it is. One that is in no queue stays so.
func (q *queue[C, V]) Remove(it *item[C, V]) {
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
	items  list.List[item[C, V]]
}

// address is the clients behind one address that have items.
type address[C comparable, V any] struct {
	addr    string
	n       int // items
	clients clients[C, V]
}

// clients is a heap (container/heap): the client with the most items is first, and of several
// such clients the one with the oldest item.
type clients[C comparable, V any] []*share[C, V]

func (h clients[C, V]) Len() int { return len(h) }

func (h clients[C, V]) Less(i, j int) bool {
	a, b := &h[i].items, &h[j].items
	return a.Len() > b.Len() || a.Len() == b.Len() && a.First().nth < b.First().nth
}

func (h clients[C, V]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

func (h *clients[C, V]) Push(s any) {
	c := s.(*share[C, V])
	c.at = len(*h)
	*h = append(*h, c)
}

func (h *clients[C, V]) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return s
}
