package reading

import (
	"io"
	"testing"
)

// TestWaiterHints: a completion that is too late for one wait is only a hint for the next.
func TestWaiterHints(t *testing.T) {
	var w Waiter
	w.Reset()
	w.wake()
	w.Reset()
	if w.Done() {
		t.Fatal("a hint completed the Waiter")
	}
	w.Complete(io.EOF)
	if !w.Done() || w.Err() != io.EOF {
		t.Fatal("the Waiter is not complete")
	}
	w.Reset()
	if w.Done() || w.Err() != nil {
		t.Fatal("Reset left the Waiter complete")
	}
}

// parkedWaiters returns Waiters whose goroutines sleep, as far as d knows.
func parkedWaiters(d *Role, n int) []*Waiter {
	ws := make([]*Waiter, n)
	for i := range ws {
		w := new(Waiter)
		w.Reset()
		w.on.Store(d)
		w.state.Store(waiterParked)
		d.enqueue(w)
		ws[i] = w
	}
	return ws
}

func (w *Waiter) hinted() bool { return len(w.ch) == 1 }

// look does what a goroutine does that leaves because it was woken or for another reason.
func (r *Role) look(w *Waiter) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.woken.awake()
	w.place.Leave()
}

// TestChain: of many complete Waiters one is woken, and wakes the next.
func TestChain(t *testing.T) {
	d := &Role{}
	ws := parkedWaiters(d, 4)
	for _, w := range ws[:3] {
		w.Complete(nil)
	}
	for i, w := range ws {
		if w.hinted() != (i == 0) {
			t.Errorf("waiter %d woken: %v", i, w.hinted())
		}
	}
	if d.waiters.First() != ws[3] || d.waiters.Len() != 1 {
		t.Error("a complete Waiter still waits for the role")
	}
	d.look(ws[0])
	if !ws[1].hinted() || ws[2].hinted() {
		t.Error("the first one woke", ws[1].hinted(), ws[2].hinted())
	}
	// While the second one is being woken, another is completed.
	ws[3].Complete(nil)
	d.look(ws[1])
	d.look(ws[2])
	if !ws[2].hinted() || !ws[3].hinted() {
		t.Error("the chain is cut")
	}
	d.look(ws[3])
	if d.woken.moving || d.woken.waiters.Len() != 0 {
		t.Error("the chain does not end")
	}
	again := parkedWaiters(d, 1)[0]
	if again.Complete(nil); !again.hinted() {
		t.Error("nobody is woken after the end of a chain")
	}
}

// TestChainLeft: a Waiter that leaves for another reason before it is woken does not break the chain.
func TestChainLeft(t *testing.T) {
	for left := range 3 {
		d := &Role{}
		ws := parkedWaiters(d, 4)
		for _, w := range ws {
			w.Complete(nil)
		}
		d.look(ws[left+1])
		for i, w := range ws {
			if i == left+1 {
				continue
			}
			if !w.hinted() {
				t.Fatalf("after waiter %d left, waiter %d sleeps for ever", left+1, i)
			}
			d.look(w)
		}
	}
}
