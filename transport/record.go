package transport

import (
	"encoding/binary"

	"github.com/stag-rdma/stag/transport/internal/mem"
	"github.com/stag-rdma/stag/xdr"
)

// record is a whole record in pooled memory.
type record struct {
	buf *mem.Buffer
	n   int
}

func (r *record) bytes() []byte { return r.buf.Data[:r.n] }

// recordAssembler joins the fragments of records that are written in pieces of any
// size (RFC 5531 Section 11).
type recordAssembler struct {
	max  int     // size of the largest record
	mark [4]byte // of the current fragment
	have int     // octets of mark, 0 to 4
	left int     // missing octets of the fragment
	last bool    // the fragment ends the record
	rec  record
}

// add takes octets of p and returns how many, and the record that they complete. It
// takes at least one octet unless p is empty. The error is errTooBig, after which
// the stream is out of step.
func (a *recordAssembler) add(p []byte) (n int, rec *record, err error) {
	if a.have < len(a.mark) {
		n = copy(a.mark[a.have:], p)
		if a.have += n; a.have < len(a.mark) {
			return n, nil, nil
		}
		if err := a.begin(binary.BigEndian.Uint32(a.mark[:])); err != nil {
			return n, nil, err
		}
	}
	k := min(a.left, len(p)-n)
	copy(a.rec.buf.Data[a.rec.n:], p[n:n+k])
	a.rec.n += k
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
	a.rec = record{}
	return n, &whole, nil
}

// begin makes room for a fragment.
func (a *recordAssembler) begin(mark uint32) error {
	a.last, a.left = mark>>31 == 1, int(mark&xdr.MaxFragment)
	size := a.rec.n + a.left
	if a.left > a.max || size > a.max {
		return errTooBig
	}
	if a.rec.buf != nil && size <= len(a.rec.buf.Data) {
		return nil
	}
	b := mem.Shared.Get(size)
	if a.rec.buf != nil {
		copy(b.Data, a.rec.bytes())
		a.rec.buf.Release()
	}
	a.rec.buf = b
	return nil
}

// drop releases an unfinished record.
func (a *recordAssembler) drop() {
	if a.rec.buf != nil {
		a.rec.buf.Release()
		a.rec = record{}
	}
}
