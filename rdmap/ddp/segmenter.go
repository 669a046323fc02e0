package ddp

// MaxPayload returns how many payload octets a segment of a message may carry when
// a ULPDU has at most mulpdu octets. Choice: a multiple of 4, so that every
// segment but the last leaves TO and MO aligned; RFC 5041 Section 5.2 would allow up to
// three octets more. The result is at least 4.
func MaxPayload(tagged bool, mulpdu int) int {
	n := mulpdu - UntaggedLen
	if tagged {
		n = mulpdu - TaggedLen
	}
	return max(n&^3, 4)
}

// Segmenter cuts one message into segments, in increasing TO or MO order, the last
// one with L set. A message of length 0 is one segment. RFC 5041 Section 5.2. It is a
// value: copy it to remember a position.
type Segmenter struct {
	// Template is the header of the first segment: STag and TO, or ULP, QN and MSN.
	// Its Last and MO are ignored.
	Template Segment
	// Length of the message in octets, below 2^32.
	Length uint32
	// MaxPayload is the longest payload of one segment, see the function of that
	// name; values below 1 count as 1.
	MaxPayload int

	off  uint32
	done bool
}

// Next returns the next segment's header and which octets of the message are its
// payload: n octets from off. ok is false when the message is at its end.
func (g *Segmenter) Next() (s Segment, off uint32, n int, ok bool) {
	if g.done {
		return s, g.off, 0, false
	}
	left := g.Length - g.off
	n = max(g.MaxPayload, 1)
	s, off = g.Template, g.off
	s.Last = uint64(left) <= uint64(n)
	if s.Last {
		n, g.done = int(left), true
	}
	if s.Tagged {
		s.TO += uint64(off)
	} else {
		s.MO = off
	}
	g.off += uint32(n)
	return s, off, n, true
}

// Left returns how many payload octets Next has not handed out yet.
func (g *Segmenter) Left() uint32 { return g.Length - g.off }

// Done reports whether Next has returned the last segment.
func (g *Segmenter) Done() bool { return g.done }
