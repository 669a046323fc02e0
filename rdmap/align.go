package rdmap

import (
	"encoding/binary"

	"github.com/stag-rdma/stag/rdmap/mpa"
)

// alignment keeps the trailers of FPDUs in one segment of TCP each, as far as a socket allows that: a
// batch ends a segment (MSG_EOR), and so does a cut before an FPDU whose pad and CRC would otherwise
// lie in two. RFC 5044 Section 5.1 has MPA align whole FPDUs, which takes a TCP that knows about them.
// A peer that checks no CRC does not care, and neither does a stag; Linux's siw reads a trailer that is
// cut wrongly (docs/decisions.md).
type alignment struct {
	emss int   // octets of a segment; 0: nothing is aligned
	at   int   // octets since the last segment that we have ended
	cuts []int // how many pieces of the batch lie before each cut
}

// before takes the next FPDU, of n octets with a trailer of the given length. It reports whether there
// has to be a cut before it. If a cut would not help, since the FPDU is longer than a segment, it
// reports false.
func (a *alignment) before(n, trailer int) bool {
	cut := a.at > 0 && severed(a.at+n, trailer, a.emss) && !severed(n, trailer, a.emss)
	if cut {
		a.at = 0
	}
	a.at += n
	return cut
}

// severed reports whether a segment ends within the last trailer octets before end.
func severed(end, trailer, emss int) bool { return end%emss > 0 && end%emss < trailer }

func (a *alignment) reset() { a.at, a.cuts = 0, a.cuts[:0] }

// cut makes what is added next begin a segment.
func (b *batch) cut() {
	b.tail = nil
	b.align.cuts = append(b.align.cuts, len(b.vec))
}

// addFPDUs adds r, which holds whole FPDUs and is borrowed until the batch has been written.
func (b *batch) addFPDUs(r room) {
	if b.align.emss == 0 {
		b.add(r)
		return
	}
	from := 0
	for at := 0; at < len(r.b); {
		ulpdu := int(binary.BigEndian.Uint16(r.b[at:]))
		n := mpa.FPDULen(ulpdu)
		if b.align.before(n, mpa.TrailerLen(ulpdu)) {
			b.add(r.part(from, at))
			b.cut()
			from = at
		}
		at += n
	}
	b.add(r.part(from, len(r.b)))
}

func (r room) part(from, to int) room { return room{r.b[from:to], r.k, r.off + from} }

// next returns the pieces of the next write: those up to a cut, or all that is left.
func (b *batch) next() [][]byte {
	done := len(b.vec) - len(b.left)
	for _, n := range b.align.cuts {
		if n > done {
			return b.left[:n-done]
		}
	}
	return b.left
}
