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
// Who answers many messages at a time does not: what comes one by one is answered one by one,
// in more writes. Nor does anybody while there are those on the processor who compute: to
// be behind them takes a hundred times as long as to be woken.
//
// It belongs to the holder of the reading role.
type taker struct {
	octets  uint64 // received when the last wait began
	flushes uint64 // of ours then
	yield   func()
	pause   *takerPause
}

const (
	// takerMost is how many octets may have come since the wait before, of one who answers.
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

// flushCount returns how often the connection has begun to write.
func (c *Conn) flushCount() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.flushes
}

// schedYield has the threads run that wait for the processor.
func schedYield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// again lets others run and reports true if a connection that has found nothing to read, and
// is about to wait, is to look once more. So far it has received octets and made flushes.
func (t *taker) again(octets, flushes uint64) bool {
	got, wrote := octets-t.octets, flushes != t.flushes
	t.octets, t.flushes = octets, flushes
	if got == 0 || wrote && got > takerMost {
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
