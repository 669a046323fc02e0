package transport

import (
	"sync"

	"github.com/stag-rdma/stag/internal/list"
	"github.com/stag-rdma/stag/transport/internal/responder"
)

// workers run calls that may block, each in a goroutine that has no other call meanwhile. A
// goroutine takes the next call when it has finished one, because making it and growing its stack
// costs as much as a short call. Before a worker runs a call, it makes sure that another one is
// coming for the calls that wait. Without calls there are no workers.
type workers struct {
	mu     sync.Mutex
	calls  list.List[responder.Call] // that wait
	coming bool                      // a worker is on its way
}

// add has c serve x.
func (w *workers) add(c *rdmaServed, x *responder.Call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls.Push(&x.Place, x)
	w.send(c)
}

// send starts a worker if one is needed and none is coming. The caller holds w.mu.
func (w *workers) send(c *rdmaServed) {
	if w.calls.Len() > 0 && !w.coming {
		w.coming = true
		go w.run(c)
	}
}

// run is a worker.
func (w *workers) run(c *rdmaServed) {
	for x := w.take(c, true); x != nil; x = w.take(c, false) {
		c.timed(x)
	}
}

// take returns the next call, nil if there is none.
func (w *workers) take(c *rdmaServed, arrived bool) *responder.Call {
	w.mu.Lock()
	defer w.mu.Unlock()
	if arrived {
		w.coming = false
	}
	x := w.calls.Pop()
	w.send(c)
	return x
}
