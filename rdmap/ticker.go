package rdmap

import (
	"sync"
	"time"
)

// tickEvery is the period at which hot connections are looked at. Unsolicited input right after a call
// is noticed within two ticks. A shorter period would wake a second thread so often that callers would
// notice.
const tickEvery = 40 * time.Millisecond

var noDeadline time.Time

// tickee is driven by a ticker. ticked runs at each tick and reports whether to go on.
type tickee interface{ ticked() bool }

// ticker ticks while it has entries. Connections whose links share a watcher share one ticker of the
// process; the others have one each.
type ticker struct {
	every time.Duration
	soon  time.Duration // instead, for the next hurry ticks
	hurry int           // owned by tick and the tickees that it calls
	mu    sync.Mutex
	list  []tickee
	alarm alarm // nil: the list is empty

	process bool // it is shared by the process
}

// The tickers of the process: of hot connections, and the watchdog.
var (
	processTicker = ticker{every: tickEvery, process: true}
	processDog    = ticker{every: watchdogRest, soon: watchdogTick, process: true}
)

// newTicker returns shared if process is true, otherwise a new ticker with the same periods.
func newTicker(process bool, shared *ticker) *ticker {
	if process {
		return shared
	}
	return &ticker{every: shared.every, soon: shared.soon}
}

// add puts c on the list, on which it must not be.
func (t *ticker) add(c tickee) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = append(t.list, c)
	if t.alarm == nil {
		t.alarm = newAlarm(t.process, t.every, t.tick)
	}
}

// tick calls every entry once. A connection leaves the list before its role can be warmed again, so it
// is never on the list twice: ticked returns false only after it has cleared hot, and add is called
// only after hot was found clear. The same holds for watched.on.
func (t *ticker) tick() {
	t.mu.Lock()
	list := t.list
	t.list = nil
	t.mu.Unlock()
	keep := list[:0]
	for _, c := range list {
		if c.ticked() {
			keep = append(keep, c)
		}
	}
	clear(list[len(keep):])
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = append(keep, t.list...)
	if len(t.list) == 0 {
		t.alarm.rest()
		t.list, t.alarm, t.hurry = nil, nil, 0
		return
	}
	t.alarm.set(t.period())
}

// period is the time to the next tick.
func (t *ticker) period() time.Duration {
	if t.hurry == 0 {
		return t.every
	}
	t.hurry--
	return t.soon
}
