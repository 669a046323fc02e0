package ledger

// list is a list of replies, the oldest first. An entry is in two: that of all, and that
// of its address.
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

// keep adds a reply, and drops others to stay within the limits.
func (l *Ledger) keep(e *Entry) {
	a := l.addrs[e.key.Client.Addr]
	if a == nil {
		a = &list{at: func(e *Entry) *link { return &e.ofAddr }}
		l.addrs[e.key.Client.Addr] = a
	}
	l.all.push(e)
	a.push(e)
	l.space.kept += e.size
	for a.n > max(l.lim.PerAddr, 1) {
		l.evict(a.oldest)
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
	addr := e.key.Client.Addr
	l.all.remove(e)
	if a := l.addrs[addr]; a != nil {
		if a.remove(e); a.n == 0 {
			delete(l.addrs, addr)
		}
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
