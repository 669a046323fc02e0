package rdmap

import (
	"encoding/binary"

	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/mpa"
)

// alignment keeps the trailers of FPDUs in one segment of TCP each, as far as a socket allows that: a
// batch ends a segment (MSG_EOR), and so does a cut before an FPDU whose pad and CRC would otherwise
// lie in two. RFC 5044 Section 5.1 has MPA align whole FPDUs, which takes a TCP that knows about them.
// A peer that checks no CRC does not care, and neither does a stag; Linux's siw reads a trailer that is
// cut wrongly (docs/decisions.md).
type alignment struct {
	emss int // octets of a segment; 0: nothing is aligned
	at   int // octets since the last segment that we have ended
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

// addFPDUs adds r, which holds whole FPDUs and is borrowed until the batch has been written.
func (w *work) addFPDUs(r buf.Room) {
	b := &w.b
	if w.align.emss == 0 {
		b.Add(r)
		return
	}
	from := 0
	for at := 0; at < len(r.B); {
		ulpdu := int(binary.BigEndian.Uint16(r.B[at:]))
		n := mpa.FPDULen(ulpdu)
		if w.align.before(n, mpa.TrailerLen(ulpdu)) {
			b.Add(r.Part(from, at))
			b.Cut()
			from = at
		}
		at += n
	}
	b.Add(r.Part(from, len(r.B)))
}
