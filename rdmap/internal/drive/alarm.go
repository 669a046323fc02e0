package drive

import "time"

// alarm calls a function each time that it goes off. It is not safe for concurrent use.
type alarm interface {
	// set makes the alarm, which has gone off, go off once more in d, d > 0.
	set(d time.Duration)
	// rest ends the alarm after it has gone off.
	rest()
}

// timer is an alarm that uses a Go timer.
type timer struct{ t *time.Timer }

func newTimer(d time.Duration, f func()) timer { return timer{time.AfterFunc(d, f)} }

func (a timer) set(d time.Duration) { a.t.Reset(d) }
func (a timer) rest()               {}
