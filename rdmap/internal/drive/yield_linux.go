package drive

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// yield makes a connection look for input once more before it sleeps, after letting others have the
// processor. One of them may be the peer, about to write; then neither of the two goes to sleep. To be
// woken costs both of them more than that, the writer too.
//
// This is not done if much arrives at a time: what is taken one by one is answered one by one, in more
// writes, and goroutines of this process may need the processor. Nor is it done while others compute
// on the processor: to wait for them takes a hundred times as long as to be woken.
//
// It belongs to the reader.
type yield struct {
	octets uint64 // received when the last wait began
	sched  func()
	pause  *yieldPause
}

const (
	// yieldMost is how many octets may have arrived since the wait before.
	yieldMost = 1 << 10
	// yieldLong is how long others may run: longer than a peer needs, shorter than the kernel's
	// time slices for threads that compute.
	yieldLong = 300 * time.Microsecond
	// yieldRest is how long nobody lets others run after some have run for longer than that.
	yieldRest = 100 * time.Millisecond
)

// yieldPause is the time before which nobody in a process lets others run.
type yieldPause struct{ until atomic.Int64 } // Unix time in nanoseconds

var processPause yieldPause

// schedYield lets other threads run that wait for the processor.
func schedYield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// again reports whether a connection that has found nothing to read and is about to wait should look
// once more; if so, it lets others run first. octets is the number received so far.
func (t *yield) again(octets uint64) bool {
	got := octets - t.octets
	t.octets = octets
	if got == 0 || got > yieldMost {
		return false
	}
	begun := time.Now()
	if begun.UnixNano() < t.pause.until.Load() {
		return false
	}
	t.sched()
	if time.Since(begun) > yieldLong {
		t.pause.until.Store(time.Now().Add(yieldRest).UnixNano())
	}
	return true
}
