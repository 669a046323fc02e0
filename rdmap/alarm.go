package rdmap

import "time"

// alarm calls a function once each time that it goes off. Its user locks.
type alarm interface {
	// set has it go off once more, in d. It has gone off before.
	set(d time.Duration)
	// rest ends the alarm, which has gone off.
	rest()
}

// timer is an alarm by a timer of Go's.
type timer struct{ t *time.Timer }

func newTimer(d time.Duration, f func()) timer { return timer{time.AfterFunc(d, f)} }

func (a timer) set(d time.Duration) { a.t.Reset(d) }
func (a timer) rest()               {}
