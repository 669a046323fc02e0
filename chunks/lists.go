package chunks

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/stag-rdma/stag/xdr"
)

// Defaults of [Limits].
const (
	defaultMaxReadSegments = 256
	DefaultMaxWriteChunks  = 8
	defaultMaxSegments     = 256
	DefaultMaxOctets       = 4<<20 + 64<<10
)

// maxOctets is the largest MaxOctets, so that sizes fit an int everywhere.
const maxOctets = 1 << 30

// Limits bounds what one header may carry. nil and zero fields mean the
// defaults. A Limits must not be changed while in use.
type Limits struct {
	// MaxReadSegments is the most entries of a read list. If zero, 256.
	MaxReadSegments int
	// MaxWriteChunks is the most chunks of a write list. If zero, 8.
	MaxWriteChunks int
	// MaxSegments is the most segments of one write or reply chunk. If zero, 256.
	MaxSegments int
	// MaxOctets is the largest sum of all segment lengths of one header, read,
	// write and reply together, in octets. If zero, 4 MiB + 64 KiB; values above
	// 1 GiB mean 1 GiB.
	MaxOctets uint64
}

// orDefault returns l with the defaults filled in.
func (l *Limits) orDefault() Limits {
	var v Limits
	if l != nil {
		v = *l
	}
	if v.MaxReadSegments == 0 {
		v.MaxReadSegments = defaultMaxReadSegments
	}
	if v.MaxWriteChunks == 0 {
		v.MaxWriteChunks = DefaultMaxWriteChunks
	}
	if v.MaxSegments == 0 {
		v.MaxSegments = defaultMaxSegments
	}
	if v.MaxOctets == 0 {
		v.MaxOctets = DefaultMaxOctets
	}
	v.MaxOctets = min(v.MaxOctets, maxOctets)
	return v
}

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

// minSize is the size of three empty lists on the wire, octets.
const minSize = 12

// Lists are the chunk lists of one RPC-over-RDMA header (RFC 8166 Section
// 4.1.2), in the order of the wire:
//
//	read list    { 1, read segment }* 0
//	write list   { 1, write chunk }* 0
//	reply chunk  0, or 1 and a write chunk
//
// The zero value is three empty lists. Decode reuses the memory of all slices.
type Lists struct {
	Read     []ReadSegment
	Write    []WriteChunk
	Reply    WriteChunk // meaningful if HasReply
	HasReply bool       // a reply chunk is there, though maybe without segments
}

// Reset empties all lists and keeps their memory.
func (l *Lists) Reset() {
	l.Read, l.Write, l.Reply, l.HasReply = l.Read[:0], l.Write[:0], l.Reply[:0], false
}

// Empty reports whether all three lists are absent.
func (l *Lists) Empty() bool { return len(l.Read) == 0 && len(l.Write) == 0 && !l.HasReply }

// Size returns the octets that Append adds: 12 for empty lists.
func (l *Lists) Size() int {
	n := minSize + (4+ReadSegmentSize)*len(l.Read)
	for _, c := range l.Write {
		n += 4 + c.Size()
	}
	if l.HasReply {
		n += l.Reply.Size()
	}
	return n
}

// Append appends the three lists. It allocates nothing if b has the room.
func (l *Lists) Append(b []byte) []byte {
	for i := range l.Read {
		b = l.Read[i].Append(xdr.AppendUint32(b, 1))
	}
	b = xdr.AppendUint32(b, 0)
	for _, c := range l.Write {
		b = c.Append(xdr.AppendUint32(b, 1))
	}
	b = xdr.AppendUint32(b, 0)
	b = xdr.AppendBool(b, l.HasReply)
	if l.HasReply {
		b = l.Reply.Append(b)
	}
	return b
}

// AddWrite appends an empty chunk to the write list and returns a pointer to
// it, valid until the list grows. Memory of earlier uses is reused.
func (l *Lists) AddWrite() *WriteChunk {
	if n := len(l.Write); n < cap(l.Write) {
		l.Write = l.Write[:n+1]
		l.Write[n] = l.Write[n][:0]
	} else {
		l.Write = append(l.Write, nil)
	}
	return &l.Write[len(l.Write)-1]
}

// Decode reads the lists from d, which it leaves at the octet after them. It
// checks the form, the limits (nil: defaults), that no segment wraps, and the
// sum of all lengths; it does not look at Positions, which [Layout.Build] does.
// Nothing is retained of d's input.
//
// Errors are *xdr.DecodeError with Field "read list", "write list" or "reply
// chunk", and wrap xdr.ErrShort, xdr.ErrRange (a boolean other than 0 and 1),
// [ErrTooMany], [ErrTooLarge] or [ErrWrap]. On error the lists are empty.
func (l *Lists) Decode(d *xdr.Decoder, lim *Limits) error {
	c := listDecoder{d: d, lim: lim.orDefault()}
	l.Reset()
	c.read(l)
	err := d.ErrIn("read list")
	if err == nil {
		c.write(l)
		err = d.ErrIn("write list")
	}
	if err == nil {
		if l.HasReply = d.Bool(); l.HasReply {
			l.Reply = c.chunk(l.Reply)
		}
		err = d.ErrIn("reply chunk")
	}
	if err != nil {
		l.Reset()
	}
	return err
}

// listDecoder carries the running sum through the three lists.
type listDecoder struct {
	d   *xdr.Decoder
	lim Limits
	sum uint64 // octets of all segments so far, ≤ lim.MaxOctets
}

// add checks one segment. It cannot overflow: sum is at most 1 GiB before.
func (c *listDecoder) add(s *Segment) bool {
	c.sum += uint64(s.Length)
	switch {
	case s.wraps():
		c.d.Fail(ErrWrap)
	case c.sum > c.lim.MaxOctets:
		c.d.Fail(ErrTooLarge)
	default:
		return true
	}
	return false
}

func (c *listDecoder) read(l *Lists) {
	for c.d.Bool() {
		if len(l.Read) >= c.lim.MaxReadSegments {
			c.d.Fail(ErrTooMany)
			return
		}
		pos := c.d.Uint32()
		b := c.d.FixedOpaque(SegmentSize)
		if b == nil {
			return
		}
		s := ReadSegment{pos, segmentOf(b)}
		if !c.add(&s.Segment) {
			return
		}
		l.Read = append(l.Read, s)
	}
}

func (c *listDecoder) write(l *Lists) {
	for c.d.Bool() {
		if len(l.Write) >= c.lim.MaxWriteChunks {
			c.d.Fail(ErrTooMany)
			return
		}
		p := l.AddWrite()
		*p = c.chunk(*p)
	}
}

// chunk reads one counted array into the memory of s. The count is compared
// with the octets left before the loop.
func (c *listDecoder) chunk(s WriteChunk) WriteChunk {
	s = s[:0]
	n := c.d.Count(1<<31-1, SegmentSize)
	if n > c.lim.MaxSegments {
		c.d.Fail(ErrTooMany)
		return s
	}
	for range n {
		seg := segmentOf(c.d.FixedOpaque(SegmentSize))
		if !c.add(&seg) {
			break
		}
		s = append(s, seg)
	}
	return s
}
