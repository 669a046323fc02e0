package reading

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// Source takes what a Link reads.
type Source interface {
	// Room returns memory for one read: places, to be filled one after the other, or, if they are nil,
	// flat. held says that the link waits for input with this memory; otherwise it has looked for input,
	// or gives the memory back before it waits.
	Room(held bool) (flat []byte, places [][]byte)
	// Got follows each Room. n octets were read, or none.
	Got(n int)
}

// Link is the input of a byte stream. One goroutine at a time calls Read, and one the methods that watch; the others may
// be called at any time.
type Link interface {
	// Read reads once. With wait it returns at least one octet or an error; without, n may be 0.
	Read(to Source, wait bool) (n int, err error)
	// Watch calls ready once, in a goroutine of its own, when there is input or the end of the stream. It reports
	// false if this link cannot watch: then somebody has to read. Unwatch leaves only the end to be noticed; Forget
	// ends all watching for good.
	Watch(ready func()) bool
	Unwatch()
	Forget()
	// Interrupt makes reads return ErrInterrupted, one that waits and those that follow, until Resume. Calls of the
	// two do not overlap.
	Interrupt()
	Resume()
	Interrupted() bool
	// Shared reports whether the links of the process are watched together, so that their ticks can be shared.
	Shared() bool
}

// Stream is a Link on any net.Conn: somebody has to wait in Read, and is interrupted by a read deadline in the past.
type Stream struct {
	nc          net.Conn
	interrupted atomic.Bool
}

// maxEmpty is how many reads of nothing in a row are no error, as in bufio.
const maxEmpty = 100

// NewStream returns a Link on nc.
func NewStream(nc net.Conn) *Stream { return &Stream{nc: nc} }

// Read implements Link. It only reads with wait.
func (l *Stream) Read(to Source, wait bool) (int, error) {
	if !wait {
		return 0, nil
	}
	p, places := to.Room(true)
	if places != nil { // who wants them read anywhere else would have to copy
		p = places[0]
	}
	var n int
	var err error
	for try := 0; try < maxEmpty && n == 0 && err == nil; try++ { // a net.Pipe hands on writes of nothing
		n, err = l.nc.Read(p)
	}
	to.Got(n)
	if n > 0 {
		return n, nil
	}
	return 0, ReadError(err)
}

// ReadError returns err, of a read that has brought nothing, as Read returns it.
func ReadError(err error) error {
	switch {
	case err == nil:
		return io.ErrNoProgress
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ErrInterrupted
	}
	return err
}

// Interrupt implements Link.
func (l *Stream) Interrupt() {
	l.interrupted.Store(true)
	_ = l.nc.SetReadDeadline(time.Unix(1, 0))
}

// Resume implements Link.
func (l *Stream) Resume() {
	if l.interrupted.Load() {
		l.interrupted.Store(false)
		_ = l.nc.SetReadDeadline(time.Time{})
	}
}

// Interrupted reports whether reads return ErrInterrupted.
func (l *Stream) Interrupted() bool { return l.interrupted.Load() }

// Watch reports false: somebody has to read.
func (l *Stream) Watch(func()) bool { return false }

// Unwatch does nothing.
func (l *Stream) Unwatch() {}

// Forget does nothing.
func (l *Stream) Forget() {}

// Shared reports false.
func (l *Stream) Shared() bool { return false }
