package drc

import "container/heap"

// address is what is kept for one address: its clients, who has most first. Who waits for its
// turn loses no reply to others behind the same address that are faster.
type address[V any] struct {
	n       int // replies
	clients clients[V]
}

// share is what is kept for one client.
type share[V any] struct {
	who            Client
	of             *address[V]
	n              int // replies
	at             int // in address.clients
	oldest, newest *Entry[V]
}

// clients is a heap: the client with the most replies is first, of several the one with the
// oldest reply.
type clients[V any] []*share[V]

func (h clients[V]) Len() int { return len(h) }

func (h clients[V]) Less(i, j int) bool {
	a, b := h[i], h[j]
	return a.n > b.n || a.n == b.n && a.oldest.nth < b.oldest.nth
}

func (h clients[V]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

func (h *clients[V]) Push(s any) { *h = append(*h, s.(*share[V])) }

func (h *clients[V]) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return s
}

// push makes e the newest reply kept.
func (c *Cache[V]) push(e *Entry[V]) {
	if e.prev = c.newest; e.prev == nil {
		c.oldest = e
	} else {
		e.prev.next = e
	}
	c.newest = e
	c.entries++
	c.octets += e.size
	c.kept++
	e.nth = c.kept
	c.pushTo(c.shareOf(e.key.Client), e)
}

func (c *Cache[V]) pushTo(s *share[V], e *Entry[V]) {
	if e.of = s; s.newest == nil {
		s.oldest = e
	} else {
		s.newest.later = e
	}
	s.newest = e
	s.n++
	s.of.n++
	if s.n == 1 {
		s.at = len(s.of.clients)
		heap.Push(&s.of.clients, s)
	} else {
		heap.Fix(&s.of.clients, s.at)
	}
}

// shareOf returns the share of a client, which is new if nothing is kept for it.
func (c *Cache[V]) shareOf(who Client) *share[V] {
	if s := c.shares[who]; s != nil {
		return s
	}
	a := c.addrs[who.Addr]
	if a == nil {
		a = new(address[V])
		c.addrs[who.Addr] = a
	}
	s := &share[V]{who: who, of: a}
	c.shares[who] = s
	return s
}

// remove drops a reply that is the oldest of its client, as the oldest of all is too.
func (c *Cache[V]) remove(e *Entry[V]) {
	delete(c.calls, e.key)
	c.entries--
	c.octets -= e.size
	if e.prev == nil {
		c.oldest = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		c.newest = e.prev
	} else {
		e.next.prev = e.prev
	}
	s := e.of
	s.n--
	s.of.n--
	if s.n > 0 {
		s.oldest = e.later
		heap.Fix(&s.of.clients, s.at)
	} else {
		heap.Remove(&s.of.clients, s.at)
		delete(c.shares, s.who)
	}
	if s.of.n == 0 {
		delete(c.addrs, s.who.Addr)
	}
	e.prev, e.next, e.later, e.of = nil, nil, nil, nil
}
