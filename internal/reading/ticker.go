package reading

import (
	"sync"
	"time"
)

// Ticked is driven by a Ticker. Tick runs at each tick and reports whether to go on.
type Ticked interface{ Tick() bool }

// Ticker ticks while it has entries. Connections whose links share a watcher share one Ticker of the
// process; the others have one each.
type Ticker struct {
	every time.Duration
	soon  time.Duration // instead, for the next hurry ticks
	hurry int           // owned by tick and those that it calls
	mu    sync.Mutex
	list  []Ticked
	alarm alarm // nil: the list is empty

	process bool // it is shared by the process
}

// NewTicker returns a Ticker with the given period, or, for the ticks that follow Hurry, soon. One that the process shares
// does not use Go's timers if there is something else.
func NewTicker(every, soon time.Duration, process bool) *Ticker {
	return &Ticker{every: every, soon: soon, process: process}
}

// Own returns t if process is true, otherwise a new Ticker with the same periods.
func (t *Ticker) Own(process bool) *Ticker {
	if process {
		return t
	}
	return NewTicker(t.every, t.soon, false)
}

// Hurry makes at least the next n ticks come soon. It is for Tick alone.
func (t *Ticker) Hurry(n int) { t.hurry = max(t.hurry, n) }

// Add puts c on the list, on which it must not be: Tick clears what the callers of Add check before it returns false.
func (t *Ticker) Add(c Ticked) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = append(t.list, c)
	if t.alarm == nil {
		t.alarm = newAlarm(t.process, t.every, t.tick)
	}
}

// tick calls every entry once. Those that go on come before those that were added meanwhile.
func (t *Ticker) tick() {
	// Without the lock: a Tick may take others, whose holders call Add.
	t.mu.Lock()
	list := t.list
	t.list = nil
	t.mu.Unlock()
	keep := list[:0]
	for _, c := range list {
		if c.Tick() {
			keep = append(keep, c)
		}
	}
	clear(list[len(keep):]) // connections that have left may be collected
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = append(keep, t.list...)
	if len(t.list) == 0 { // an idle process wakes nobody
		t.alarm.rest()
		t.list, t.alarm, t.hurry = nil, nil, 0
		return
	}
	t.alarm.set(t.Period())
}

// Period returns the time to the next tick, which it counts.
func (t *Ticker) Period() time.Duration {
	if t.hurry == 0 {
		return t.every
	}
	t.hurry--
	return t.soon
}

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

// TickEvery is the period at which active connections are looked at. Unsolicited input right after a call
// is noticed within two ticks. A shorter period would wake a second thread so often that callers would
// notice.
const TickEvery = 40 * time.Millisecond

// Process is the ticker of the active connections of the process.
var Process = NewTicker(TickEvery, 0, true)
