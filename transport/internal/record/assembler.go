package record

import (
	"encoding/binary"
	"errors"

	"github.com/stag-rdma/stag/transport/internal/mem"
	"github.com/stag-rdma/stag/xdr"
)

// MarkSize is the size of a record mark.
const MarkSize = 4

// ErrTooBig: a record has more octets than is allowed.
var ErrTooBig = errors.New("record too large")

// Record is a whole record in pooled memory.
type Record struct {
	Buf *mem.Buffer
	Len int
}

// Bytes returns its octets, lent until Buf is released.
func (r *Record) Bytes() []byte { return r.Buf.Data[:r.Len] }

// Assembler joins the fragments of records that are written in pieces of any
// size (RFC 5531 Section 11).
type Assembler struct {
	Max  int     // size of the largest record
	mark [4]byte // of the current fragment
	have int     // octets of mark, 0 to 4
	left int     // missing octets of the fragment
	last bool    // the fragment ends the record
	err  error   // the stream is out of step
	rec  Record
}

// Add takes octets of p and returns how many, and the record that they complete. It
// takes at least one octet unless p is empty. The error is ErrTooBig, after which
// the stream is out of step and Add takes nothing.
func (a *Assembler) Add(p []byte) (n int, rec *Record, err error) {
	if a.err != nil {
		return 0, nil, a.err
	}
	if a.have < len(a.mark) {
		n = copy(a.mark[a.have:], p)
		if a.have += n; a.have < len(a.mark) {
			return n, nil, nil
		}
		if a.err = a.begin(binary.BigEndian.Uint32(a.mark[:])); a.err != nil {
			return n, nil, a.err
		}
	}
	k := min(a.left, len(p)-n)
	copy(a.rec.Buf.Data[a.rec.Len:], p[n:n+k])
	a.rec.Len += k
	a.left -= k
	n += k
	if a.left > 0 {
		return n, nil, nil
	}
	a.have = 0
	if !a.last {
		return n, nil, nil
	}
	whole := a.rec
	a.rec = Record{}
	return n, &whole, nil
}

// begin makes room for a fragment.
func (a *Assembler) begin(mark uint32) error {
	a.last, a.left = mark>>31 == 1, int(mark&xdr.MaxFragment)
	size := a.rec.Len + a.left
	if a.left > a.Max || size > a.Max {
		return ErrTooBig
	}
	if a.rec.Buf != nil && size <= len(a.rec.Buf.Data) {
		return nil
	}
	b := mem.Shared.Get(size)
	if a.rec.Buf != nil {
		copy(b.Data, a.rec.Bytes())
		a.rec.Buf.Release()
	}
	a.rec.Buf = b
	return nil
}

// Drop releases an unfinished record.
func (a *Assembler) Drop() {
	if a.rec.Buf != nil {
		a.rec.Buf.Release()
		a.rec = Record{}
	}
}
