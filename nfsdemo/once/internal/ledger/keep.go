package ledger

import "container/heap"

// list is a list of replies, the oldest first. An entry is in two: that of all, and that
// of its client.
type list struct {
	n              int
	oldest, newest *Entry
	at             func(*Entry) *link
}

// link is an entry's place in a list.
type link struct{ prev, next *Entry }

func (s *list) push(e *Entry) {
	k := s.at(e)
	*k = link{prev: s.newest}
	if s.newest != nil {
		s.at(s.newest).next = e
	} else {
		s.oldest = e
	}
	s.newest = e
	s.n++
}

func (s *list) remove(e *Entry) {
	k := s.at(e)
	if k.prev != nil {
		s.at(k.prev).next = k.next
	} else {
		s.oldest = k.next
	}
	if k.next != nil {
		s.at(k.next).prev = k.prev
	} else {
		s.newest = k.prev
	}
	*k = link{}
	s.n--
}

// address is what is kept for one address: its clients, who has most first. Who waits for its
// turn loses no reply to others behind the same address that are faster.
type address struct {
	n       int // replies
	clients clients
}

// share is what is kept for one client.
type share struct {
	list
	who Client
	of  *address
	pos int // in address.clients
}

// clients is a heap: the client with the most replies is first, of several the one with the
// oldest reply.
type clients []*share

func (h clients) Len() int { return len(h) }

func (h clients) Less(i, j int) bool {
	a, b := h[i], h[j]
	return a.n > b.n || a.n == b.n && a.oldest.kept < b.oldest.kept
}

func (h clients) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = i, j
}

func (h *clients) Push(s any) { *h = append(*h, s.(*share)) }

func (h *clients) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return s
}

// push adds a reply to those of its client.
func (s *share) push(e *Entry) {
	s.list.push(e)
	s.of.n++
	if s.n > 1 {
		heap.Fix(&s.of.clients, s.pos)
		return
	}
	s.pos = len(s.of.clients)
	heap.Push(&s.of.clients, s)
}

func (s *share) remove(e *Entry) {
	s.list.remove(e)
	s.of.n--
	if s.n > 0 {
		heap.Fix(&s.of.clients, s.pos)
	} else {
		heap.Remove(&s.of.clients, s.pos)
	}
}

// shareOf returns the share of a client, which is new if nothing is kept for it.
func (l *Ledger) shareOf(who Client) *share {
	if s := l.shares[who]; s != nil {
		return s
	}
	a := l.addrs[who.Addr]
	if a == nil {
		a = new(address)
		l.addrs[who.Addr] = a
	}
	s := &share{who: who, of: a, list: list{at: func(e *Entry) *link { return &e.ofClient }}}
	l.shares[who] = s
	return s
}

// keep adds a reply, and drops others to stay within the limits.
func (l *Ledger) keep(e *Entry) {
	l.everKept++
	e.kept = l.everKept
	l.all.push(e)
	s := l.shareOf(e.key.Client)
	s.push(e)
	l.space.kept += e.size
	for s.of.n > max(l.lim.PerAddr, 1) {
		l.evict(s.of.clients[0].oldest)
	}
	for l.all.n > max(l.lim.Entries, 1) || l.space.kept > l.lim.Capacity/keptShare && l.all.n > 1 {
		l.evict(l.all.oldest)
	}
}

func (l *Ledger) evict(e *Entry) {
	l.evicted++
	l.forget(e)
}

// forget drops a reply; its records do not count any more.
func (l *Ledger) forget(e *Entry) {
	l.all.remove(e)
	s := l.shareOf(e.key.Client)
	if s.remove(e); s.n == 0 {
		delete(l.shares, s.who)
	}
	if s.of.n == 0 {
		delete(l.addrs, s.who.Addr)
	}
	l.space.kept -= e.size
	l.space.live -= e.size
	delete(l.calls, e.key)
}

// expire drops the replies that are out of time. A clock that was set back makes them
// older than they are by nothing: then they are kept a little longer.
func (l *Ledger) expire(now int64) {
	for l.all.oldest != nil && now-l.all.oldest.at >= l.lim.Time {
		l.expired++
		l.forget(l.all.oldest)
	}
}
