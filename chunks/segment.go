package chunks

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/stag-rdma/stag/xdr"
)

// Sizes on the wire, octets.
const (
	SegmentSize     = 16 // Segment
	ReadSegmentSize = 20 // ReadSegment, without the presence word before it
)

// Handle is the 32-bit name of registered memory (RFC 8166 Section 3.4.3), an
// STag on iWARP. Opaque here.
type Handle uint32

// String returns the handle as 0x%08x.
func (h Handle) String() string {
	s := strconv.FormatUint(uint64(h), 16)
	return "0x" + "00000000"[len(s):] + s
}

// Segment is an RDMA segment (RFC 8166 Section 3.4.3, RFC 8166 Section 4.1.2).
//
//	octets  field
//	4       handle
//	4       length, octets
//	8       offset
type Segment struct {
	Handle Handle // of the peer's memory
	Length uint32 // octets; in a reply, the octets written
	Offset uint64 // of the first octet; not zero based in general
}

// wraps reports whether the segment ends beyond the offset space.
func (s *Segment) wraps() bool { return s.Offset > math.MaxUint64-uint64(s.Length) }

// Append appends the 16 octets of s.
func (s *Segment) Append(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(s.Handle))
	b = xdr.AppendUint32(b, s.Length)
	return xdr.AppendUint64(b, s.Offset)
}

// segmentOf reads a segment from the first 16 octets of b, which has them.
func segmentOf(b []byte) Segment {
	return Segment{
		Handle: Handle(binary.BigEndian.Uint32(b)),
		Length: binary.BigEndian.Uint32(b[4:]),
		Offset: binary.BigEndian.Uint64(b[8:]),
	}
}

// ReadSegment is an entry of a read list: 4 octets of Position, then a Segment
// (RFC 8166 Section 3.4.5). Entries of equal Position form one read chunk.
type ReadSegment struct {
	Position uint32 // octet offset in the unreduced stream; 0: the stream itself
	Segment
}

// Append appends the 20 octets of s.
func (s *ReadSegment) Append(b []byte) []byte {
	return s.Segment.Append(xdr.AppendUint32(b, s.Position))
}

// WriteChunk is a counted array of segments (RFC 8166 Section 3.4.6): a write
// chunk, or the reply chunk. On the wire: count, then the segments. It is empty
// when it has no segments and unused when all lengths are 0.
type WriteChunk []Segment

// Size returns the octets that Append adds.
func (c WriteChunk) Size() int { return 4 + SegmentSize*len(c) }

// Append appends the count word and the segments.
func (c WriteChunk) Append(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(len(c)))
	for i := range c {
		b = c[i].Append(b)
	}
	return b
}

// Room returns the sum of the lengths.
func (c WriteChunk) Room() uint64 {
	var n uint64
	for i := range c {
		n += uint64(c[i].Length)
	}
	return n
}

// Clear sets all lengths to 0: the chunk is returned unused (RFC 8166 Section
// 4.3.2.2).
func (c WriteChunk) Clear() {
	for i := range c {
		c[i].Length = 0
	}
}
