package transport

import "sync"

// workers run calls that may block, each in a goroutine that has no other call meanwhile.
// A goroutine takes up the next call when it is through with one, since making it and
// growing its stack costs as much as a short call: before a worker runs a call it sees to
// it that another one is on its way to those that wait. None lives when no call does.
type workers struct {
	mu          sync.Mutex
	first, last *exchange // that wait
	coming      bool      // a worker is on its way
}

// add has c serve x.
func (w *workers) add(c *rdmaServed, x *exchange) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last != nil {
		w.last.next = x
	} else {
		w.first = x
	}
	w.last = x
	w.send(c)
}

// send sends for a worker if one is wanted and none is coming, with mu held.
func (w *workers) send(c *rdmaServed) {
	if w.first != nil && !w.coming {
		w.coming = true
		go w.run(c)
	}
}

// run is a worker.
func (w *workers) run(c *rdmaServed) {
	for x := w.take(c, true); x != nil; x = w.take(c, false) {
		c.serve(x)
	}
}

// take returns the next call, nil if there is none.
func (w *workers) take(c *rdmaServed, arrived bool) *exchange {
	w.mu.Lock()
	defer w.mu.Unlock()
	if arrived {
		w.coming = false
	}
	x := w.first
	if x == nil {
		return nil
	}
	w.first, x.next = x.next, nil
	if w.first == nil {
		w.last = nil
	}
	w.send(c)
	return x
}
