package drc

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
	s := c.addrs[e.key.Client.Addr]
	if s == nil {
		s = new(share[V])
		c.addrs[e.key.Client.Addr] = s
	}
	if s.newest == nil {
		s.oldest = e
	} else {
		s.newest.later = e
	}
	s.newest = e
	s.n++
}

// remove drops a reply that is the oldest of its address, as the oldest of all is too.
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
	s := c.addrs[e.key.Client.Addr]
	if s.oldest = e.later; s.oldest == nil {
		delete(c.addrs, e.key.Client.Addr)
	}
	s.n--
	e.prev, e.next, e.later = nil, nil, nil
}
