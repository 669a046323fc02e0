package stream

import (
	"sync"
	"time"
)

// Deadline is a point in time that goroutines can wait for, and that can be moved. The zero value
// has no deadline. It is safe for concurrent use.
type Deadline struct {
	mu    sync.Mutex
	timer *time.Timer
	ch    chan struct{} // closed when it has passed; nil until somebody looks
	shut  bool          // ch is closed
}

// Set moves the deadline; the zero time means none. It takes effect at once for goroutines that wait.
func (d *Deadline) Set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if d.ch == nil || d.shut {
		d.ch, d.shut = make(chan struct{}), false
	}
	if t.IsZero() {
		return
	}
	wait := time.Until(t)
	if wait <= 0 {
		d.pass()
		return
	}
	var own *time.Timer
	own = time.AfterFunc(wait, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.timer == own { // otherwise the deadline was moved while this timer fired
			d.pass()
		}
	})
	d.timer = own
}

// pass closes ch. The caller holds d.mu.
func (d *Deadline) pass() {
	if !d.shut {
		close(d.ch)
		d.shut = true
	}
}

// Passed returns a channel that is closed when the deadline has passed.
func (d *Deadline) Passed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ch == nil {
		d.ch = make(chan struct{})
	}
	return d.ch
}
