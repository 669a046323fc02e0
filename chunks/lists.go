package chunks

import "github.com/stag-rdma/stag/xdr"

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
