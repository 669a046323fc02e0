package drive

import (
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/vec"
	"golang.org/x/sys/unix"
)

// polling is what a link that may poll knows about its waits for input. Most of the time
// of a short round trip goes into waking a sleeping thread, on a processor that sleeps as well. A
// goroutine that polls instead gets its input at once, but keeps a processor busy. To poll only where
// it is likely to help,
//
//   - a wait begins with polling only if the wait before it ended within the limit, so that each
//     vain poll is preceded by a short wait, and idle connections never poll;
//   - one of the GOMAXPROCS processors is left to goroutines that have something to do;
//   - nobody polls while several goroutines wait on the connection: the others have to run before
//     anything can arrive;
//   - if too many connections would poll at the same time, they would hinder each other, and none
//     polls for a while.
//
// It belongs to the reader.
type polling struct {
	limit time.Duration // 0: this link does not poll, or the read does not wait
	alone bool          // this read may poll
	since time.Time     // the beginning of the wait; zero: it has not begun
	short bool          // the last wait ended within the limit
	muted bool          // input of fewer than muteBelow octets raises no event
}

// muteBelow is the number of octets below which input wakes nobody while somebody polls for it. Go's
// poller is notified of all input on a socket, and the thread that waits in it would take a processor
// away each time, for nothing.
const muteBelow = 32 << 10

// busy counts the goroutines of the process that poll for input.
var busy struct {
	n     atomic.Int32
	polls atomic.Uint64 // begun so far
	until atomic.Int64  // there were too many: nobody polls before this Unix time in nanoseconds
}

// crowdPause is how long nobody polls after too many wanted to.
const crowdPause = 10 * time.Millisecond

// begin is called when a read begins.
func (p *polling) begin(limit time.Duration, alone bool) {
	p.limit, p.alone, p.since = limit, alone, time.Time{}
}

// read is vec.Read that polls for a while. If there is no input, events are no longer muted when it
// returns. It is called again after a sleep.
func (p *polling) read(fd int, room []byte, interrupted *atomic.Bool) (int, error) {
	n, err := vec.Read(fd, room)
	switch {
	case p.limit <= 0:
	case !errors.Is(err, unix.EAGAIN):
		p.short = p.since.IsZero() || time.Since(p.since) <= p.limit
	case p.since.IsZero(): // a new wait, not one that was woken in vain
		p.since = time.Now()
		if p.short && p.alone && enterBusy(p.since) {
			n, err = p.poll(fd, room, interrupted)
			busy.n.Add(-1)
		}
	}
	if p.muted && errors.Is(err, unix.EAGAIN) {
		p.mute(fd, false)
		return vec.Read(fd, room)
	}
	return n, err
}

// poll looks until there is input, or the limit is over, or somebody interrupts.
func (p *polling) poll(fd int, room []byte, interrupted *atomic.Bool) (n int, err error) {
	if !p.muted {
		p.mute(fd, true)
	}
	for err = unix.EAGAIN; errors.Is(err, unix.EAGAIN) && !interrupted.Load() && time.Since(p.since) < p.limit; {
		n, err = vec.Read(fd, room)
	}
	return n, err
}

// mute determines whether little input raises no event: the kernel reports a socket as ready only from
// SO_RCVLOWAT octets on, which does not affect a read that does not wait.
func (p *polling) mute(fd int, on bool) {
	below := 1
	if on {
		below = muteBelow
	}
	p.muted = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT, below) == nil && on
}

// enterBusy reports whether one more goroutine may poll, and counts it.
func enterBusy(now time.Time) bool {
	if now.UnixNano() < busy.until.Load() {
		return false
	}
	if int(busy.n.Add(1)) < runtime.GOMAXPROCS(0) {
		busy.polls.Add(1)
		return true
	}
	busy.n.Add(-1)
	busy.until.Store(now.Add(crowdPause).UnixNano())
	return false
}
