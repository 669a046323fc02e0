package rdmaptest

import (
	"io"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"
)

// Faults says what goes wrong at one end of a connection: In with what this end reads,
// Out with what it writes. With the zero value nothing goes wrong.
type Faults struct {
	In, Out Fault
	Seed    uint64 // determines the sizes of pieces
}

// Fault says what goes wrong in one direction. Offsets count the octets of that direction
// from 0.
type Fault struct {
	// MaxPiece cuts the stream into pieces of 1 to MaxPiece octets: a Read returns one
	// piece, a Write makes several. If zero, nothing is cut into pieces.
	MaxPiece int
	// Delay is how long each piece takes. If a deadline passes in that time, the call fails,
	// and nothing is lost.
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
	// cutNone: it does not end too early.
	cutNone Cut = iota
	// CutReset: both directions end at once with ECONNRESET, and octets in flight are
	// lost.
	CutReset
	// CutEnd: this direction ends normally: a Read returns io.EOF; a Write fails with
	// EPIPE, and the other end reads io.EOF.
	CutEnd
	// CutSilence: as if the cable were unplugged: a Read waits for ever, and octets
	// written disappear.
	CutSilence
)

var (
	errReset error = syscall.ECONNRESET
	errPipe  error = syscall.EPIPE
)

// course is the position of a direction in its stream, and what goes wrong in it.
type course struct {
	Fault
	rand *rand.Rand
	off  int64 // octets that have passed
}

// begin sets the faults for the octets that have not yet passed.
func (c *course) begin(f Fault, seed, stream uint64) {
	f.Flip = slices.Clone(f.Flip)
	slices.Sort(f.Flip)
	c.Fault, c.rand = f, rand.New(rand.NewPCG(seed, stream))
}

// cut returns the cut that is due, or cutNone.
func (c *course) cut() Cut {
	if c.off < c.CutAt {
		return cutNone
	}
	return c.Cut
}

// piece returns how many of n octets pass next. n and the result are positive, and no cut is due.
func (c *course) piece(n int) int {
	if c.MaxPiece > 0 {
		n = min(n, 1+c.rand.IntN(c.MaxPiece))
	}
	if c.Cut != cutNone {
		n = int(min(int64(n), c.CutAt-c.off))
	}
	return n
}

// spoils reports whether a bit of the next n octets has to be flipped.
func (c *course) spoils(n int) bool {
	i, _ := slices.BinarySearch(c.Flip, 8*c.off)
	return i < len(c.Flip) && c.Flip[i] < 8*(c.off+int64(n))
}

// pass flips the bits of p that have to be flipped, and counts its octets as passed.
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

// endError returns the error of a direction that is cut.
func (k Cut) endError(write bool) error {
	switch {
	case k == CutReset:
		return errReset
	case write:
		return errPipe
	}
	return io.EOF
}
