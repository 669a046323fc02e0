package chunks

// Write is one RDMA Write: Data goes to (Handle, Offset) of the peer. Data is a
// view of what the caller gave and never empty.
type Write struct {
	Handle Handle
	Offset uint64
	Data   []byte
}

// Fill spreads n octets over the segments, in order and without gaps, and sets
// each length to the octets used; later segments get 0, one offered for XDR pad
// among them (RFC 8166 Section 3.4.6). If they do not fit it returns
// [ErrNoRoom] and changes nothing, so that nothing is written past the end.
func (c WriteChunk) Fill(n int) error {
	if uint64(n) > c.Room() {
		return ErrNoRoom
	}
	left := uint64(n)
	for i := range c {
		c[i].Length = uint32(min(left, uint64(c[i].Length)))
		left -= uint64(c[i].Length)
	}
	return nil
}

// AppendWrites appends the RDMA Writes that move the octets of pieces, in
// order, to a chunk that was filled with exactly as many octets. It borrows
// pieces; the writes are views of them. Octets that the chunk has no length for
// are left out.
func AppendWrites(dst []Write, c WriteChunk, pieces [][]byte) []Write {
	var p []byte
	for i := range c {
		off, room := c[i].Offset, uint64(c[i].Length)
		for room > 0 {
			for len(p) == 0 {
				if len(pieces) == 0 {
					return dst
				}
				p, pieces = pieces[0], pieces[1:]
			}
			n := min(room, uint64(len(p)))
			dst = append(dst, Write{c[i].Handle, off, p[:n:n]})
			p = p[n:]
			off += n
			room -= n
		}
	}
	return dst
}

// AppendWrite is [AppendWrites] for data in one piece.
func AppendWrite(dst []Write, c WriteChunk, data []byte) []Write {
	for i := range c {
		n := min(int64(c[i].Length), int64(len(data)))
		if n > 0 {
			dst = append(dst, Write{c[i].Handle, c[i].Offset, data[:n:n]})
			data = data[n:]
		}
	}
	return dst
}

// Returned checks a chunk of a reply against the chunk the call offered and
// returns the octets that were written. The number of segments, handles and
// offsets must be the same, no length may have grown, and segments must have
// been filled in order without gaps (RFC 8166 Section 3.4.6); else [ErrReturned].
func Returned(offered, got WriteChunk) (int, error) {
	if len(got) != len(offered) {
		return 0, ErrReturned
	}
	var n uint64
	short := false
	for i := range got {
		o, g := &offered[i], &got[i]
		if g.Handle != o.Handle || g.Offset != o.Offset || g.Length > o.Length || short && g.Length > 0 {
			return 0, ErrReturned
		}
		short = short || g.Length < o.Length
		n += uint64(g.Length)
	}
	return int(n), nil
}
