// Package callid says when two calls are the same call: what a client keeps when it sends one
// again, and what two calls of a client that has forgotten which XIDs it has used differ in. The
// duplicate request cache and the journal of package once share it. It performs no I/O.
package callid

import (
	"hash/crc32"
	"net"

	"github.com/stag-rdma/stag/internal/crc32c"
	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/xdr"
)

// Client identifies a caller, as far as a server can tell.
type Client struct {
	// Addr is the address without the port, which changes with every connection.
	Addr string
	// Owner is who is known to have the other end of the connection; "" if nobody is. Of leaves it alone: only the
	// server that was called knows.
	Owner string
	// Shows is what the connection shows of the caller beside what he claims; 0 if that does not matter. Of leaves it
	// alone, because it is not the same at each server.
	Shows uint8
	// Flavor and Cred are the credential: for AUTH_SYS the body without the stamp, which may
	// change when the call is sent again. All groups count.
	Flavor uint32
	Cred   string
}

// Call identifies a call but for the content of its arguments, of which Len is the length in
// octets. A [Sum] tells the content.
type Call struct {
	Client                Client
	XID, Prog, Vers, Proc uint32
	Len                   uint32
}

// stampLen is the length of the stamp, with which an AUTH_SYS credential begins (RFC 5531 Appendix A).
const stampLen = 4

// Of identifies a call from addr whose complete arguments have n octets.
func Of(addr net.Addr, h *xdr.CallHeader, n int) Call {
	return Call{
		Client: Client{Addr: peeraddr.Host(addr), Flavor: uint32(h.Cred.Flavor), Cred: string(CredOf(h))},
		XID:    h.XID, Prog: h.Prog, Vers: h.Vers, Proc: h.Proc, Len: uint32(n),
	}
}

// CredOf returns what stays the same of a call's credential, lent as the header is.
func CredOf(h *xdr.CallHeader) []byte {
	if h.Cred.Flavor == xdr.AuthSys {
		return h.Cred.Body[min(stampLen, len(h.Cred.Body)):]
	}
	return h.Cred.Body
}

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
