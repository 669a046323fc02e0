package rdmap

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/buf"
)

// errInterrupted: a read was told to return. It is a hint: the reader checks what has changed, and may
// read again.
var errInterrupted = errors.New("rdmap: read interrupted")

// defaultEMSS, in octets, is assumed if the EMSS of the path is not known: that of TCP on Ethernet
// without options.
const defaultEMSS = 1460

// source takes what a link reads.
type source interface {
	// Room returns memory for one read: places, to be filled one after the other, or, if they are nil,
	// flat. held says that the link waits for input with this memory; otherwise it has looked for input,
	// or gives the memory back before it waits.
	Room(held bool) (flat []byte, places [][]byte)
	// Got follows each Room. n octets were read, or none.
	Got(n int)
}

// patience says when a Write may wait.
type patience uint8

// The kinds of patience.
const (
	never   patience = iota // what cannot be written at once is left
	ifBlind                 // on a link that cannot tell whether it has to wait, otherwise never
	always                  // until all is written
)

// link is a byte stream. One goroutine at a time calls Read, one Write, and one the methods that watch; the others may
// be called at any time.
type link interface {
	// Read reads once. With wait it returns at least one octet or an error; without, n may be 0.
	Read(to source, wait bool) (n int, err error)
	// Write writes what is left of b. done is false if something remains. A write that makes no progress for limit
	// fails.
	Write(b *buf.Batch, p patience, limit time.Duration) (done bool, err error)
	// Watch calls ready once, in a goroutine of its own, when there is input or the end of the stream. It reports
	// false if this link cannot watch: then somebody has to read. Unwatch leaves only the end to be noticed; Forget
	// ends all watching for good.
	Watch(ready func()) bool
	Unwatch()
	Forget()
	// Interrupt makes reads return errInterrupted, one that waits and those that follow, until Resume. Calls of the
	// two do not overlap.
	Interrupt()
	Resume()
	Interrupted() bool
	// Shared reports whether the links of the process are watched together, so that their ticks can be shared.
	Shared() bool
	// CloseWrite ends the stream in this direction, and reports whether the link can do that.
	CloseWrite() bool
	// EMSS returns how many octets a segment of TCP carries.
	EMSS() int
	// ParkRoom returns how many octets of free memory a read needs while it waits inside an FPDU of need octets, of
	// which have have arrived.
	ParkRoom(need, have int) int
}

// stream is a link on any net.Conn: somebody has to wait in Read, and is interrupted by a read deadline in the past.
type stream struct {
	nc          net.Conn
	interrupted atomic.Bool
}

// newStream returns a link on nc.
func newStream(nc net.Conn) *stream { return &stream{nc: nc} }

// Read implements link. It only reads with wait.
func (l *stream) Read(to source, wait bool) (int, error) {
	if !wait {
		return 0, nil
	}
	flat, _ := to.Room(true)
	n, err := l.nc.Read(flat)
	to.Got(n)
	if n > 0 {
		return n, nil
	}
	return 0, readError(err)
}

// readError returns err, of a read that has brought nothing, as Read returns it.
func readError(err error) error {
	switch {
	case err == nil:
		return io.ErrNoProgress
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errInterrupted
	}
	return err
}

// Write implements link. It writes pieces of some tens of KiB, whatever the pieces of b are: each may be a TLS record
// or a system call, and the deadline is for that piece. Afterwards the deadline is removed: if it passed while the
// connection is idle, something that TLS writes on its own behalf would fail, and break the connection for good.
func (l *stream) Write(b *buf.Batch, p patience, limit time.Duration) (done bool, err error) {
	if p == never {
		return false, nil
	}
	var k *buf.Chunk
	defer func() {
		if k != nil {
			k.Release()
		}
		_ = l.nc.SetWriteDeadline(time.Time{})
	}()
	for len(b.Unwritten()) > 0 {
		p := b.Unwritten()[0]
		switch {
		case len(p) >= buf.ChunkSize:
			p = p[:buf.ChunkSize]
		case len(b.Unwritten()) > 1:
			if k == nil {
				k = buf.NewChunk()
			}
			p = b.Gather(k)
		}
		_ = l.nc.SetWriteDeadline(time.Now().Add(limit))
		n, err := l.nc.Write(p)
		b.Advance(n)
		if err != nil {
			return true, err
		}
	}
	return true, nil
}

// Interrupt implements link.
func (l *stream) Interrupt() {
	l.interrupted.Store(true)
	_ = l.nc.SetReadDeadline(time.Unix(1, 0))
}

// Resume implements link.
func (l *stream) Resume() {
	if l.interrupted.Load() {
		l.interrupted.Store(false)
		_ = l.nc.SetReadDeadline(time.Time{})
	}
}

// Interrupted reports whether reads return errInterrupted.
func (l *stream) Interrupted() bool { return l.interrupted.Load() }

// Watch reports false: somebody has to read.
func (l *stream) Watch(func()) bool { return false }

// Unwatch does nothing.
func (l *stream) Unwatch() {}

// Forget does nothing.
func (l *stream) Forget() {}

// Shared reports false.
func (l *stream) Shared() bool { return false }

// EMSS returns defaultEMSS.
func (l *stream) EMSS() int { return defaultEMSS }

// CloseWrite implements link, for a net.Conn that has such a method.
func (l *stream) CloseWrite() bool {
	cw, ok := l.nc.(interface{ CloseWrite() error })
	return ok && cw.CloseWrite() == nil
}

// ParkRoom returns room for the rest of the FPDU: Read needs its memory before it waits.
func (l *stream) ParkRoom(need, have int) int { return need - have }
