package callid

import (
	"hash/crc32"

	"github.com/stag-rdma/stag/internal/crc32c"
	"github.com/stag-rdma/stag/xdr"
)

// Sum is the CRC32C of all octets of a call's arguments, if they are known.
//
// Choice: not a keyed hash, because a CRC can be made of pieces that come in any order, and is as fast
// as memory. Whoever makes two of its own calls collide deceives itself.
type Sum struct {
	CRC   uint32
	Known bool
}

// SumOf returns the Sum of complete arguments.
func SumOf(args []byte) Sum { return Sum{CRC: crc32c.Update(0, args), Known: true} }

// Pieces sums the data of a call that are read piece by piece. The zero value is ready.
type Pieces struct {
	items []piece
}

type piece struct {
	crc uint32
	n   int // octets summed, from the first one on
}

// Reset forgets the octets, and expects those of n items.
func (p *Pieces) Reset(n int) {
	p.items = p.items[:0]
	for range n {
		p.items = append(p.items, piece{})
	}
}

// Add adds the octets at off of an item. Octets that were added before are skipped; it must not begin
// behind the ones that were added.
func (p *Pieces) Add(item, off int, b []byte) {
	it := &p.items[item]
	if skip := it.n - off; skip < len(b) {
		b = b[max(skip, 0):]
		it.crc = crc32c.Update(it.crc, b)
		it.n += len(b)
	}
}

var zeros [3]byte

// Sum returns the Sum of arguments, given those without the data: at(i) says where in args the data of
// item i belong, in ascending order, and how many octets they are. The Sum is unknown until all of them
// were added.
func (p *Pieces) Sum(args []byte, at func(i int) (pos, n int)) Sum {
	crc, from := uint32(0), 0
	for i := range p.items {
		pos, n := at(i)
		if p.items[i].n != n {
			return Sum{}
		}
		crc = crc32c.Update(crc, args[from:pos])
		crc = join(crc, p.items[i].crc, n)
		crc = crc32c.Update(crc, zeros[:xdr.Pad(n)])
		from = pos
	}
	return Sum{CRC: crc32c.Update(crc, args[from:]), Known: true}
}

// join returns the CRC of two runs of octets from those of each, of which the second has n octets: n
// zeros behind the first multiply its CRC by x to the power of 8n.
func join(a, b uint32, n int) uint32 {
	const byOctet = 1 << 23 // x to the power of 8; the highest bit is x to the power of 0
	for p := uint32(byOctet); n > 0; n >>= 1 {
		if n&1 == 1 {
			a = multiply(a, p)
		}
		p = multiply(p, p)
	}
	return a ^ b
}

// multiply multiplies two polynomials modulo that of CRC32C.
func multiply(a, b uint32) (p uint32) {
	for ; a != 0; a <<= 1 {
		if a&(1<<31) != 0 {
			p ^= b
		}
		b = b>>1 ^ -(b&1)&crc32.Castagnoli
	}
	return p
}
