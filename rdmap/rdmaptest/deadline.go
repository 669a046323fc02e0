package rdmaptest

import (
	"sync"
	"time"
)

// deadline is a point in time that can be moved. The channel that wait returns is closed
// when it has passed.
type deadline struct {
	mu    sync.Mutex
	timer *time.Timer
	ch    chan struct{}
}

func (d *deadline) init() { d.ch = make(chan struct{}) }

func (d *deadline) wait() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ch
}

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fired := d.timer != nil && !d.timer.Stop() // expire is about to close ch, if it has not
	d.timer = nil
	if fired || isClosed(d.ch) {
		d.ch = make(chan struct{})
	}
	if t.IsZero() {
		return
	}
	ch := d.ch
	if left := time.Until(t); left > 0 {
		d.timer = time.AfterFunc(left, func() { d.expire(ch) })
		return
	}
	close(ch)
}

// stop stops the timer, since nobody will wait any more.
func (d *deadline) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && d.timer.Stop() {
		d.timer = nil
	}
}

// expire closes ch, the channel that was current when set started the timer; set may have replaced
// it since. Nobody else closes it.
func (d *deadline) expire(ch chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(ch)
}
