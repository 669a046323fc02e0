package crash

import (
	"encoding/binary"
	"fmt"
)

// Piece is the unit in which files are written, in octets. A disk writes it atomically.
const Piece = 512

// Stamps that no operation writes.
const (
	hole uint64 = 0     // zeros
	torn        = ^hole // not what anybody wrote
)

// stamp identifies piece i of the data that operation n of a worker writes.
func stamp(worker uint16, n uint32, i int) uint64 {
	return uint64(worker)<<48 | uint64(n)<<16 | uint64(i)&0xffff
}

// stampText says who wrote a piece.
func stampText(s uint64) string {
	switch s {
	case hole:
		return "zeros"
	case torn:
		return "octets that nobody wrote"
	}
	return fmt.Sprintf("piece %[3]d of operation %[1]d of worker %[2]d", uint32(s>>16), s>>48, s&0xffff)
}

// appendPiece appends the octets of a piece: its stamp, and numbers derived from it.
func appendPiece(b []byte, s uint64) []byte {
	x := s
	for range Piece / 8 {
		b = binary.BigEndian.AppendUint64(b, x)
		x = x*6364136223846793005 + 1442695040888963407 // Knuth's MMIX
		if s == hole {
			x = 0
		}
	}
	return b
}

// stamps returns the stamps of the pieces in b. A short last piece is torn.
func stamps(b []byte) []uint64 {
	var out []uint64
	for len(b) > 0 {
		n := min(len(b), Piece)
		s := torn
		if n == Piece {
			s = binary.BigEndian.Uint64(b)
			if string(appendPiece(nil, s)) != string(b[:n]) {
				s = torn
			}
		}
		out, b = append(out, s), b[n:]
	}
	return out
}

// data returns the octets that a Write writes.
func (o *Op) data(worker uint16) []byte {
	b := make([]byte, 0, o.Pieces*Piece)
	for i := range o.Pieces {
		b = appendPiece(b, stamp(worker, o.N, i))
	}
	return b
}
