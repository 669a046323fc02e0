package rdmaptest

import (
	"math/rand/v2"
	"slices"
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
