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
