package rdmap

import (
	"net"
	"time"

	"github.com/stag-rdma/stag/internal/reading"
	"github.com/stag-rdma/stag/rdmap/internal/buf"
)

// defaultEMSS, in octets, is assumed if the EMSS of the path is not known: that of TCP on Ethernet
// without options.
const defaultEMSS = 1460

// patience says when a Write may wait.
type patience uint8

// The kinds of patience.
const (
	never   patience = iota // what cannot be written at once is left
	ifBlind                 // on a link that cannot tell whether it has to wait, otherwise never
	always                  // until all is written
)

// link is a byte stream. One goroutine at a time calls Write.
type link interface {
	reading.Link
	// Write writes what is left of b. done is false if something remains. A write that makes no progress for limit
	// fails.
	Write(b *buf.Batch, p patience, limit time.Duration) (done bool, err error)
	// CloseWrite ends the stream in this direction, and reports whether the link can do that.
	CloseWrite() bool
	// EMSS returns how many octets a segment of TCP carries.
	EMSS() int
	// ParkRoom returns how many octets of free memory a read needs while it waits inside an FPDU of need octets, of
	// which have have arrived.
	ParkRoom(need, have int) int
}

// stream is a link on any net.Conn.
type stream struct {
	*reading.Stream
	nc net.Conn
}

// newStream returns a link on nc.
func newStream(nc net.Conn) *stream { return &stream{reading.NewStream(nc), nc} }

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

// EMSS returns defaultEMSS.
func (l *stream) EMSS() int { return defaultEMSS }

// CloseWrite implements link, for a net.Conn that has such a method.
func (l *stream) CloseWrite() bool {
	cw, ok := l.nc.(interface{ CloseWrite() error })
	return ok && cw.CloseWrite() == nil
}

// ParkRoom returns room for the rest of the FPDU: Read needs its memory before it waits.
func (l *stream) ParkRoom(need, have int) int { return need - have }
