package execute

import (
	"container/heap"

	"github.com/stag-rdma/stag/internal/callid"
	"github.com/stag-rdma/stag/internal/list"
)

// queue decides which of the replies that a server keeps have to make room for others: it holds entries, the oldest first.
// They belong to clients, and several clients may share one address. The oldest of all goes first; but when
// an address has more than its share, the client there that has the most loses its oldest. A slow client thus loses no
// reply to faster ones behind the same address. Every operation takes constant time, or the logarithm of the number of
// clients at one address. The zero value is not ready: see newQueue.
type queue struct {
	items  list.List[Entry] // by age
	added  uint64           // ever
	addrs  map[string]*address
	shares map[callid.Client]*share
}

// newQueue returns an empty queue.
func newQueue() *queue {
	return &queue{addrs: make(map[string]*address), shares: make(map[callid.Client]*share)}
}

// Excess returns the item that has to go if addr has more than limit items: the oldest one of
// the client there that has the most. It returns nil if addr has at most limit.
func (q *queue) Excess(addr string, limit int) *Entry {
	a := q.addrs[addr]
	if a == nil || a.n <= max(limit, 0) {
		return nil
	}
	return a.clients[0].items.First()
}

// Add appends it, which is in no queue, as the newest item. A client has the same addr
// in all calls.
func (q *queue) Add(it *Entry, addr string) {
	s := q.shares[it.key.Client]
	if s == nil {
		a := q.addrs[addr]
		if a == nil {
			a = &address{addr: addr}
			q.addrs[addr] = a
		}
		s = &share{client: it.key.Client, of: a}
		q.shares[s.client] = s
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
func (q *queue) Remove(it *Entry) {
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
type share struct {
	client callid.Client
	of     *address
	at     int // in of.clients
	items  list.List[Entry]
}

// address is the clients behind one address that have items.
type address struct {
	addr    string
	n       int // items
	clients clients
}

// clients is a heap (container/heap): the client with the most items is first, and of several
// such clients the one with the oldest item.
type clients []*share

func (h clients) Len() int { return len(h) }

func (h clients) Less(i, j int) bool {
	a, b := &h[i].items, &h[j].items
	return a.Len() > b.Len() || a.Len() == b.Len() && a.First().nth < b.First().nth
}

func (h clients) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

func (h *clients) Push(s any) {
	c := s.(*share)
	c.at = len(*h)
	*h = append(*h, c)
}

func (h *clients) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return s
}
