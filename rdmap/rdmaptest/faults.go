package rdmaptest

import (
	"io"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"
)

// Faults says what goes wrong on one end of a connection: In for what this end reads,
// Out for what it writes. The zero value is a connection that works.
type Faults struct {
	In, Out Fault
	Seed    uint64 // of the sizes of pieces
}

// Fault says what goes wrong in one direction. Offsets count the octets of the direction
// from 0.
type Fault struct {
	// MaxPiece cuts the stream into pieces of 1 to MaxPiece octets: a Read returns one,
	// a Write makes several. If zero, pieces are as they come.
	MaxPiece int
	// Delay is how long each piece takes. A deadline that passes meanwhile is obeyed,
	// and nothing is lost by it.
	Delay time.Duration
	// Flip lists bits that arrive inverted: bit 0 is the highest of octet 0.
	Flip []int64
	// Cut says how the direction ends once CutAt octets have passed.
	Cut   Cut
	CutAt int64
}

// Cut is a way in which a stream ends too early.
type Cut uint8

const (
	// CutNone: it does not.
	CutNone Cut = iota
	// CutReset: both directions end at once with ECONNRESET, and octets on their way
	// are lost.
	CutReset
	// CutEnd: this direction ends in order: a Read returns io.EOF; a Write fails with
	// EPIPE, and the other end reads io.EOF.
	CutEnd
	// CutSilence: the wire is unplugged: a Read waits for ever, octets written vanish.
	CutSilence
)

var (
	errReset error = syscall.ECONNRESET
	errPipe  error = syscall.EPIPE
)

// course is where a direction is in its stream, and what goes wrong there.
type course struct {
	Fault
	rand *rand.Rand
	off  int64 // octets that have passed
}

// begin sets the faults for what has not passed yet.
func (c *course) begin(f Fault, seed, stream uint64) {
	f.Flip = slices.Clone(f.Flip)
	slices.Sort(f.Flip)
	c.Fault, c.rand = f, rand.New(rand.NewPCG(seed, stream))
}

// cut returns the cut that is due.
func (c *course) cut() Cut {
	if c.off < c.CutAt {
		return CutNone
	}
	return c.Cut
}

// piece returns how many of n octets pass next; n and the result are above 0, and no
// cut is due.
func (c *course) piece(n int) int {
	if c.MaxPiece > 0 {
		n = min(n, 1+c.rand.IntN(c.MaxPiece))
	}
	if c.Cut != CutNone {
		n = int(min(int64(n), c.CutAt-c.off))
	}
	return n
}

// spoils reports whether a bit of the next n octets is to be flipped.
func (c *course) spoils(n int) bool {
	i, _ := slices.BinarySearch(c.Flip, 8*c.off)
	return i < len(c.Flip) && c.Flip[i] < 8*(c.off+int64(n))
}

// pass lets p pass: flips its bits and counts its octets.
func (c *course) pass(p []byte) {
	i, _ := slices.BinarySearch(c.Flip, 8*c.off)
	for _, bit := range c.Flip[i:] {
		at := bit/8 - c.off
		if at >= int64(len(p)) {
			break
		}
		p[at] ^= 0x80 >> (bit % 8)
	}
	c.off += int64(len(p))
}

// endError is what a cut direction returns.
func (k Cut) endError(write bool) error {
	switch {
	case k == CutReset:
		return errReset
	case write:
		return errPipe
	}
	return io.EOF
}
