package chunks

import "github.com/stag-rdma/stag/xdr"

// Item is a reducible opaque: Data begins at octet Pos of the unreduced stream,
// just after its count word; its pad follows it. Data is borrowed.
type Item struct {
	Pos  int // multiple of 4, ≥ 4
	Data []byte
}

// padded returns the octets the item takes in the unreduced stream.
func (it *Item) padded() int { return len(it.Data) + xdr.Pad(len(it.Data)) }

// Set is a set of items by index. Items from 64 on are never in it: they stay
// inline.
type Set uint64

// Has reports whether item i is in the set.
func (s Set) Has(i int) bool { return i < 64 && s&(1<<i) != 0 }

// With returns the set with item i added.
func (s Set) With(i int) Set {
	if i >= 64 {
		return s
	}
	return s | 1<<i
}

// Message is a complete RPC message as its sender has it: octets in two parts,
// which follow each other (a header and its arguments or results; either may be
// empty), and the items in it that may be reduced. Everything is borrowed.
//
// If Whole, the parts are the unreduced stream, with the data and pads of the items.
// If not, the parts are the stream without them; Item.Pos is still an offset in the
// unreduced stream.
type Message struct {
	Head, Body []byte
	Items      []Item // ascending Pos
	Whole      bool
}

// Check returns [ErrItem] when the items do not lie in the message in order.
// The other methods may only be used on a message that passes it.
func (m *Message) Check() error {
	end, missing := 0, 0
	n := m.Len()
	for i := range m.Items {
		it := &m.Items[i]
		if it.Pos%4 != 0 || it.Pos < 4 || it.Pos < end || it.Pos > n-it.padded() {
			return ErrItem
		}
		if !m.Whole && it.Pos-missing > len(m.Head)+len(m.Body) {
			return ErrItem
		}
		missing += it.padded()
		end = it.Pos + it.padded()
	}
	return nil
}

// Len returns the octets of the unreduced stream.
func (m *Message) Len() int {
	n := len(m.Head) + len(m.Body)
	if !m.Whole {
		for i := range m.Items {
			n += m.Items[i].padded()
		}
	}
	return n
}

// ReducedLen returns the octets of the stream without the items of out.
func (m *Message) ReducedLen(out Set) int {
	n := m.Len()
	for i := range m.Items {
		if out.Has(i) {
			n -= m.Items[i].padded()
		}
	}
	return n
}

// Pieces appends to dst views that together are the stream without the data and
// pads of the items of out (RFC 8166 Section 3.4.2). Items that stay are in it,
// pads included. Nothing is copied; no view is empty.
func (m *Message) Pieces(dst [][]byte, out Set) [][]byte {
	cur, missing := 0, 0 // offsets in Head and Body taken as one
	for i := range m.Items {
		it := &m.Items[i]
		at := it.Pos
		if !m.Whole {
			at -= missing
			missing += it.padded()
		}
		switch {
		case m.Whole && out.Has(i):
			dst = m.cut(dst, cur, at)
			cur = at + it.padded()
		case !m.Whole:
			dst = m.cut(dst, cur, at)
			cur = at
			if !out.Has(i) {
				dst = appendPiece(dst, it.Data)
				dst = appendPiece(dst, zeros[:xdr.Pad(len(it.Data))])
			}
		}
	}
	return m.cut(dst, cur, len(m.Head)+len(m.Body))
}

var zeros [3]byte

// cut appends views of the octets from and up to to, of Head and Body as one.
func (m *Message) cut(dst [][]byte, from, to int) [][]byte {
	h := len(m.Head)
	if from < h {
		dst = appendPiece(dst, m.Head[from:min(to, h)])
		from = min(to, h)
	}
	if from < to {
		dst = appendPiece(dst, m.Body[from-h:to-h])
	}
	return dst
}

func appendPiece(dst [][]byte, p []byte) [][]byte {
	if len(p) > 0 {
		dst = append(dst, p)
	}
	return dst
}

// Append appends the stream without the items of out, as one run of octets;
// with an empty set, the unreduced message.
func (m *Message) Append(b []byte, out Set) []byte {
	var tmp [16][]byte
	for _, p := range m.Pieces(tmp[:0], out) {
		b = append(b, p...)
	}
	return b
}

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
