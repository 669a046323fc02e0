package rdmap

// waiters is a list of Waiters, linked through themselves. A Waiter is in at most one list.
type waiters struct{ first, last *Waiter }

// enqueue adds w at the end, unless it is in the list already.
func (l *waiters) enqueue(w *Waiter) {
	if w.in == l {
		return
	}
	w.in, w.next, w.prev = l, nil, l.last
	if l.last != nil {
		l.last.next = w
	} else {
		l.first = w
	}
	l.last = w
}

// dequeue takes w out of the list it is in, if there is one.
func (w *Waiter) dequeue() {
	l := w.in
	if l == nil {
		return
	}
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		l.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		l.last = w.prev
	}
	w.in, w.next, w.prev = nil, nil, nil
}

// chain wakes the goroutines of complete Waiters one by one: each, when it runs, wakes the next. A
// burst of replies wakes many. If all were woken at once, Go's scheduler would spread them over
// threads, which it would wake too: that costs short calls more than they gain. If the callers do
// compute in the meantime, nothing is lost, since each wakes the next first.
//
// Everything is done with reader.mu held. As long as somebody waits in the chain, somebody else was
// woken, or was about to check for another reason, and has not called awake yet.
type chain struct {
	waiters
	moving bool // somebody was woken and has not called awake
}

// wake wakes w, whose goroutine sleeps, now or later.
func (c *chain) wake(w *Waiter) {
	w.dequeue()
	if c.moving {
		c.enqueue(w)
		return
	}
	c.moving = true
	w.wake()
}

// awake is called by every goroutine that has slept.
func (c *chain) awake() {
	w := c.first
	if c.moving = w != nil; c.moving {
		w.dequeue()
		w.wake()
	}
}
