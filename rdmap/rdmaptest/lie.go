package rdmaptest

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"github.com/stag-rdma/stag/rdmap/ddp"
)

// Piece is one segment of a message: Len octets of it, which say that they belong at Off.
type Piece struct {
	Off, Len int
	Last     bool
}

// Pieces returns a message of n octets in segments of at most most octets each, as a peer may send it:
// each octet once, in order, the last segment marked. An empty segment may be among them.
func Pieces(rnd *rand.Rand, n, most int) (cuts []Piece) {
	for off := 0; ; {
		k := min(n-off, 1+rnd.IntN(most))
		if rnd.IntN(20) == 0 {
			k = 0
		}
		cuts = append(cuts, Piece{off, k, false})
		if off += k; off == n {
			cuts[len(cuts)-1].Last = true
			return cuts
		}
	}
}

// Lie changes the segments of a message, so that a receiver that does not look closely would take it for
// complete: it repeats, leaves out, moves, swaps, overlaps and splits segments, mostly with as many
// octets in all as before. The last of them is still marked.
func Lie(rnd *rand.Rand, cuts []Piece) []Piece {
	cuts = slices.Clone(cuts)
	pick := func() int { return rnd.IntN(len(cuts)) }
	for range 1 + rnd.IntN(2) {
		i, j := pick(), pick()
		switch rnd.IntN(7) {
		case 0: // all of them in one place
			for k := range cuts {
				cuts[k].Off = 0
			}
		case 1: // one in the place of another
			cuts[i].Off = cuts[j].Off
		case 2: // in another order
			cuts[i], cuts[j] = cuts[j], cuts[i]
		case 3: // twice
			cuts = slices.Insert(cuts, i, cuts[i])
		case 4: // never
			if len(cuts) > 1 {
				cuts = slices.Delete(cuts, i, i+1)
			}
		case 5: // overlapping the one before it
			cuts[i].Off = max(0, cuts[i].Off-1-rnd.IntN(64))
		case 6: // in two, the second half first
			if c := cuts[i]; c.Len > 1 {
				h := c.Len / 2
				cuts[i] = Piece{c.Off + h, c.Len - h, false}
				cuts = slices.Insert(cuts, i+1, Piece{c.Off, h, false})
			}
		}
	}
	for k := range cuts {
		cuts[k].Last = k == len(cuts)-1
	}
	return cuts
}

// Complete reports whether cuts are a message of n octets that a receiver has to take: each octet once,
// in order. Where an empty segment says that it belongs does not matter.
func Complete(cuts []Piece, n int) bool {
	off := 0
	for _, c := range cuts {
		if c.Len > 0 && c.Off != off {
			return false
		}
		off += c.Len
	}
	return off == n
}

// Delivered returns how many octets of a Send in these pieces a receiver has to deliver, or -1 if it has to
// refuse them. Only the last segment says how long a Send is, so that one whose end is left out is shorter.
func Delivered(cuts []Piece) (n int) {
	for _, c := range cuts {
		if c.Off != n {
			return -1
		}
		n += c.Len
	}
	return n
}

// Cut returns the FPDUs of a message in pieces. s is the header of a message in one segment; its TO or MO is
// where the message begins. Octets that msg does not have are zeros.
func (p *Peer) Cut(s ddp.Segment, msg []byte, cuts []Piece) (fpdus []byte) {
	for _, c := range cuts {
		t := s
		t.Last = c.Last
		if t.Tagged {
			t.TO += uint64(c.Off)
		} else {
			t.MO += uint32(c.Off)
		}
		payload := make([]byte, c.Len)
		if c.Off < len(msg) {
			copy(payload, msg[c.Off:])
		}
		fpdus = append(fpdus, p.Frame(append(t.Append(nil), payload...))...)
	}
	return fpdus
}

// readResponse is the opcode of a Read Response (RFC 5040 Section 4.3).
const readResponse = 2

// Answer returns the Read Response to a Read Request whose payload is req, with the octets of mem from the
// tagged offset that it asks for, in the pieces that cut returns for their number.
func (p *Peer) Answer(req, mem []byte, cut func(n int) []Piece) []byte {
	sink, to := ddp.STag(binary.BigEndian.Uint32(req)), binary.BigEndian.Uint64(req[4:])
	n, from := binary.BigEndian.Uint32(req[12:]), binary.BigEndian.Uint64(req[20:])
	return p.Cut(p.Tagged(readResponse, sink, to), mem[min(from, uint64(len(mem))):], cut(int(n)))
}
