package chunks

import "github.com/stag-rdma/stag/xdr"

// Pull is one RDMA Read: Length octets at (Handle, Offset) of the peer go to
// offset Dst of the buffer that Layout describes. Length is never 0.
type Pull struct {
	Segment
	Dst int
}

// Span is a run of inline octets: Len octets at Src of the inline stream go to
// offset Dst of the buffer.
type Span struct{ Src, Dst, Len int }

// Placed is a read chunk in the rebuilt stream: its data lie at Pos and the
// sender gave it Len octets, with or without their pad.
type Placed struct{ Pos, Len int }

// Holds reports whether the chunk is a legal carrier of an opaque of count octets:
// its length is the count, or the count rounded up to a multiple of 4 (RFC 8166
// Section 3.4.5.2). If not, a responder answers GARBAGE_ARGS.
func (p Placed) Holds(count int) bool {
	return p.Len == count || int64(p.Len) == int64(count)+int64(xdr.Pad(count))
}

// Layout describes how inline octets and read segments make up an RPC message in
// ONE contiguous buffer of Total octets (RFC 8166 Section 3.4.5):
//
//	inline   | XID … count |           | more words |
//	chunks                 | data, pad |
//	buffer   0             Pos                      Total
//
// RDMA Reads place segments at their final address. A Position Zero chunk is split
// where ordinary chunks are inserted. Build reuses the memory of all slices.
type Layout struct {
	Total  int      // octets of the unreduced message
	Pulls  []Pull   // RDMA Reads, in list order
	Inline []Span   // inline octets, ascending
	Pads   []Span   // pad that no chunk brings: Len zero octets at Dst; Src unused
	Chunks []Placed // ordinary chunks, ascending
	Long   bool     // the stream is a Position Zero chunk

	src source
}

// Reset empties the layout and keeps its memory.
func (l *Layout) Reset() {
	l.Pulls, l.Inline, l.Pads, l.Chunks = l.Pulls[:0], l.Inline[:0], l.Pads[:0], l.Chunks[:0]
	l.Total, l.Long, l.src = 0, false, source{}
}

// Build lays out a chunked message (RDMA_MSG): inline octets of payload stream
// and the ordinary chunks of read. It borrows read. Nothing is pulled, nothing
// as large as a chunk is allocated, and every sum is checked before it is used.
//
// Errors: [ErrPosition] (not a multiple of 4, descending, or 0), [ErrOverlap],
// [ErrBeyond], [ErrTooLarge] (the rebuilt message exceeds lim.MaxOctets), after
// which the layout is empty.
func (l *Layout) Build(read []ReadSegment, inline int, lim *Limits) error {
	l.Reset()
	return l.finish(l.build(read, uint64(inline), lim.orDefault().MaxOctets))
}

// BuildLong lays out a long call (RDMA_NOMSG, RFC 8166 Section 3.5.3): the
// stream is the Position Zero chunk at the head of read; the ordinary chunks after
// it in read are inserted into that stream. Errors are those of Build, and
// [ErrNoStream] when read does not begin with Position 0.
func (l *Layout) BuildLong(read []ReadSegment, lim *Limits) error {
	l.Reset()
	if len(read) == 0 || read[0].Position != 0 {
		return ErrNoStream
	}
	n, stream := 0, uint64(0)
	for n < len(read) && read[n].Position == 0 {
		stream += uint64(read[n].Length)
		n++
	}
	l.Long = true
	l.src = source{segs: read[:n]}
	return l.finish(l.build(read[n:], stream, lim.orDefault().MaxOctets))
}

// finish forgets the borrowed list and, on error, the half-built layout.
func (l *Layout) finish(err error) error {
	l.src = source{}
	if err != nil {
		l.Reset()
	}
	return err
}

// build walks the chunks in Position order. dst counts the octets rebuilt so far,
// and in the octets of the source stream used for them.
func (l *Layout) build(read []ReadSegment, stream, limit uint64) error {
	var dst, in uint64
	for len(read) > 0 {
		pos := uint64(read[0].Position)
		switch {
		case pos == 0 || pos%4 != 0:
			return ErrPosition
		case pos < dst:
			return l.tooLow(pos)
		case pos-dst > stream-in:
			return ErrBeyond
		}
		l.take(int(in), int(dst), int(pos-dst))
		in += pos - dst

		var n uint64
		for len(read) > 0 && uint64(read[0].Position) == pos {
			n += uint64(read[0].Length)
			if pos+n+3+stream-in > limit {
				return ErrTooLarge
			}
			l.pull(read[0].Segment, int(pos+n)-int(read[0].Length))
			read = read[1:]
		}
		l.Chunks = append(l.Chunks, Placed{int(pos), int(n)})
		dst = pos + n
		if pad := xdr.Pad(int(n)); pad > 0 {
			l.Pads = append(l.Pads, Span{Dst: int(dst), Len: pad})
			dst += uint64(pad)
		}
	}
	if dst+stream-in > limit {
		return ErrTooLarge
	}
	l.take(int(in), int(dst), int(stream-in))
	l.Total = int(dst + stream - in)
	return nil
}

// tooLow tells a Position inside the data of the last chunk from one before it.
func (l *Layout) tooLow(pos uint64) error {
	if last := l.Chunks[len(l.Chunks)-1]; pos > uint64(last.Pos) {
		return ErrOverlap
	}
	return ErrPosition
}

// take moves n octets of the stream, from in on, to dst: out of the inline
// octets or out of the Position Zero chunk.
func (l *Layout) take(in, dst, n int) {
	if n == 0 {
		return
	}
	if !l.Long {
		l.Inline = append(l.Inline, Span{in, dst, n})
		return
	}
	for n > 0 {
		s := l.src.next(n)
		l.pull(s, dst)
		dst += int(s.Length)
		n -= int(s.Length)
	}
}

func (l *Layout) pull(s Segment, dst int) {
	if s.Length > 0 {
		l.Pulls = append(l.Pulls, Pull{s, dst})
	}
}

// source cuts the segments of a Position Zero chunk into runs.
type source struct {
	segs []ReadSegment
	off  uint32 // octets of segs[0] used up
}

// next returns the next run of at most n octets, n ≤ octets left, n > 0.
func (s *source) next(n int) Segment {
	for s.off == s.segs[0].Length {
		s.segs, s.off = s.segs[1:], 0
	}
	seg := s.segs[0].Segment
	seg.Offset += uint64(s.off)
	seg.Length = uint32(min(int64(n), int64(seg.Length-s.off)))
	s.off += seg.Length
	return seg
}

// Place copies the inline octets to where they belong in dst and writes the
// missing pads. dst has at least Total octets, inline as many as Build was
// told; Place borrows both. What Pulls cover is not touched, so Place and the
// RDMA Reads may happen in any order.
func (l *Layout) Place(dst, inline []byte) {
	for _, s := range l.Inline {
		copy(dst[s.Dst:s.Dst+s.Len], inline[s.Src:s.Src+s.Len])
	}
	for _, s := range l.Pads {
		clear(dst[s.Dst : s.Dst+s.Len])
	}
}
