package rdmap

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// taker looks once more before a connection sleeps, behind whoever else wants the processor:
// that may be the peer, about to write, and then neither goes to sleep. Being woken costs both
// more than that, the writer too.
//
// Where much comes at a time nobody does: what comes one by one is answered one by one, in
// more writes, and it may be goroutines of this process that are to have the processor. Nor
// does anybody while there are those on it who compute: to be behind them takes a hundred
// times as long as to be woken.
//
// It belongs to the holder of the reading role.
type taker struct {
	octets uint64 // received when the last wait began
	yield  func()
	pause  *takerPause
}

const (
	// takerMost is how many octets may have come since the wait before.
	takerMost = 1 << 10
	// takerLong is how long others may run: more than a peer does, less than the kernel's
	// slices of those who compute.
	takerLong = 300 * time.Microsecond
	// takerRest is for how long nobody lets others run when some have run for longer.
	takerRest = 100 * time.Millisecond
)

// takerPause is when nobody of a process lets others run.
type takerPause struct{ until atomic.Int64 } // nanoseconds of the epoch

var processTakers takerPause

// schedYield has the threads run that wait for the processor.
func schedYield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// again lets others run and reports true if a connection that has found nothing to read, and
// is about to wait, is to look once more. It has received so many octets by now.
func (t *taker) again(octets uint64) bool {
	got := octets - t.octets
	t.octets = octets
	if got == 0 || got > takerMost {
		return false
	}
	begun := time.Now()
	if begun.UnixNano() < t.pause.until.Load() {
		return false
	}
	t.yield()
	if time.Since(begun) > takerLong {
		t.pause.until.Store(time.Now().Add(takerRest).UnixNano())
	}
	return true
}
