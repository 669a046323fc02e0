package rdmap

import (
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/vec"
	"golang.org/x/sys/unix"
)

// polling is what a connection with Config.BusyPoll knows of its waits for input. Waking
// a thread that sleeps, on a processor that has gone to sleep as well, is most of the time
// of a short round trip; who looks for input instead has it at once, and keeps a processor
// busy meanwhile. So that this is done only where it is likely to help,
//
//   - a wait begins with looking only if the wait before it was over within the limit: each
//     one in vain is preceded by one that was short, and idle connections never look;
//   - of the processors of GOMAXPROCS one is left to those who have something to do;
//   - where several wait on one connection, the others are to run before anything can come;
//   - connections that would look at the same time hinder each other: then none does for
//     a while.
//
// It belongs to the holder of the reading role.
type polling struct {
	limit time.Duration // 0: of no use in this read
	since time.Time     // the wait has begun; zero: it has not
	short bool          // the last wait was over within the limit
	muted bool          // input of less than muteBelow octets makes no event
}

// muteBelow is how many octets, while somebody looks for them, wake nobody. Go's poller is
// told of all that comes on a socket, and the thread that waits in it would take a
// processor away each time, for nothing.
const muteBelow = 32 << 10

// lookers are those of the process who look for input.
var lookers struct {
	n     atomic.Int32
	looks atomic.Uint64 // begun so far
	until atomic.Int64  // they were too many: nobody before then, nanoseconds of the epoch
}

// crowdPause is how long nobody looks when too many wanted to.
const crowdPause = 10 * time.Millisecond

// begin is told that a read begins.
func (p *polling) begin(limit time.Duration, wait bool) {
	if p.limit = limit; !wait {
		p.limit = 0
	}
	p.since = time.Time{}
}

// read is vec.Read that looks for a while. Without input there are events again when it
// returns. It is called again after a sleep.
func (p *polling) read(c *Conn, fd int, buf []byte) (int, error) {
	n, err := vec.Read(fd, buf)
	switch {
	case p.limit <= 0:
	case !errors.Is(err, unix.EAGAIN):
		p.short = p.since.IsZero() || time.Since(p.since) <= p.limit
	case p.since.IsZero(): // not woken in vain
		p.since = time.Now()
		if p.short && c.waiting.Load() <= 1 && enterLookers(p.since) {
			n, err = p.look(c, fd, buf)
			lookers.n.Add(-1)
		}
	}
	if p.muted && errors.Is(err, unix.EAGAIN) {
		p.mute(fd, false)
		return vec.Read(fd, buf)
	}
	return n, err
}

// look reads until there is something, or it was long enough, or somebody interrupts.
func (p *polling) look(c *Conn, fd int, buf []byte) (n int, err error) {
	if !p.muted {
		p.mute(fd, true)
	}
	for err = unix.EAGAIN; errors.Is(err, unix.EAGAIN) && !c.role.interrupted.Load() && time.Since(p.since) < p.limit; {
		n, err = vec.Read(fd, buf)
	}
	return n, err
}

// mute says whether little input makes no event: of the socket's readiness the kernel
// speaks from SO_RCVLOWAT octets on, which a read that does not wait does not look at.
func (p *polling) mute(fd int, on bool) {
	below := 1
	if on {
		below = muteBelow
	}
	p.muted = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT, below) == nil && on
}

// enterLookers reports whether there is room for one more.
func enterLookers(now time.Time) bool {
	if now.UnixNano() < lookers.until.Load() {
		return false
	}
	if int(lookers.n.Add(1)) < runtime.GOMAXPROCS(0) {
		lookers.looks.Add(1)
		return true
	}
	lookers.n.Add(-1)
	lookers.until.Store(now.Add(crowdPause).UnixNano())
	return false
}
