package ledger

// keep adds a reply, and drops others to stay within the limits.
func (l *Ledger) keep(e *Entry) {
	e.place.Value = e
	l.replies.Add(&e.place, e.key.Client, e.key.Client.Addr)
	l.space.kept += e.size
	for {
		over := l.replies.Excess(e.key.Client.Addr, max(l.lim.PerAddr, 1))
		if over == nil && l.tooMany() {
			over = l.replies.Oldest()
		}
		if over == nil {
			return
		}
		l.evicted++
		l.forget(over.Value)
	}
}

// tooMany reports whether there are more replies than may be kept. One always fits into the ring.
func (l *Ledger) tooMany() bool {
	n := l.replies.Len()
	return n > max(l.lim.Entries, 1) || n > 1 && l.space.kept > l.lim.Capacity/keptShare
}

// forget drops a reply; its records no longer count.
func (l *Ledger) forget(e *Entry) {
	l.replies.Remove(&e.place)
	l.space.kept -= e.size
	l.space.live -= e.size
	delete(l.calls, e.key)
}

// expire drops the replies whose time is over. If the clock was set back, they are kept a little
// longer.
func (l *Ledger) expire(now int64) {
	for e := l.replies.Oldest(); e != nil && now-e.Value.at >= l.lim.Time; e = l.replies.Oldest() {
		l.expired++
		l.forget(e.Value)
	}
}
