package stream

import (
	"encoding/binary"
	"errors"
	"net"

	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/xdr"
)

// MarkSize is the size of a record mark.
const MarkSize = 4

// ErrTooBig: a record has more octets than is allowed.
var ErrTooBig = errors.New("record too large")

// HeadSize is what Check looks at: the XID of a message, and whether it is a call.
const HeadSize = 8

// Record is a whole record in pooled memory.
type Record struct {
	Buf *memory.Buffer
	Len int
	Cut bool // only its head is here: Check has not allowed so much
}

// Bytes returns its octets, lent until Buf is released.
func (r *Record) Bytes() []byte { return r.Buf.Data[:r.Len] }

// Assembler joins the fragments of records that are written in pieces of any
// size (RFC 5531 Section 11).
type Assembler struct {
	Max int // size of the largest record
	// Check, if it is not nil, sees the first HeadSize octets of each record, fewer if it has no more, and how many octets
	// it has, or may have if that is not known yet. It returns how many are taken. Of a larger one only the first octets
	// are kept. The error of Check is one of Add.
	Check func(head []byte, size int) (most int, err error)

	mark    [4]byte // of the current fragment
	have    int     // octets of mark, 0 to 4
	left    int     // missing octets of the fragment
	last    bool    // the fragment ends the record
	checked bool    // by Check
	size    int     // octets of the record that have been announced
	room    int     // octets of the record for which there is memory
	most    int     // of the record, by Check
	err     error   // the stream is out of step
	rec     Record
}

// Add takes octets of p and returns how many, and the record that they complete. It
// takes at least one octet unless p is empty. The error is ErrTooBig, Check's, or net.ErrClosed after Drop; after it
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
	for {
		n += a.take(p[n:])
		if a.left > 0 && (a.checked || a.rec.Len < HeadSize) {
			return n, nil, nil
		}
		if a.checked || a.left == 0 && !a.last && a.rec.Len < HeadSize {
			break
		}
		if a.err = a.check(); a.err != nil {
			return n, nil, a.err
		}
	}
	a.have = 0
	if !a.last {
		return n, nil, nil
	}
	whole := a.rec
	a.rec, a.checked, a.size, a.room = Record{}, false, 0, 0
	return n, &whole, nil
}

// take takes octets of the fragment, as many as there is memory for.
func (a *Assembler) take(p []byte) int {
	k := min(a.left, len(p))
	if !a.rec.Cut {
		k = min(k, a.room-a.rec.Len)
		copy(a.rec.Buf.Data[a.rec.Len:], p[:k])
		a.rec.Len += k
	}
	a.left -= k
	return k
}

// begin makes room for a fragment; before Check only for what that looks at.
func (a *Assembler) begin(mark uint32) error {
	a.last, a.left = mark>>31 == 1, int(mark&xdr.MaxFragment)
	if a.left > a.Max || a.size+a.left > a.Max {
		return ErrTooBig
	}
	a.size += a.left
	if a.Check == nil {
		a.checked, a.most = true, a.Max
	}
	a.grow()
	return nil
}

// check asks Check, and makes room for the rest of the fragment.
func (a *Assembler) check() (err error) {
	a.checked = true
	size := a.Max
	if a.last {
		size = a.size
	}
	if a.most, err = a.Check(a.rec.Bytes(), size); err == nil {
		a.grow()
	}
	return err
}

// grow makes room for what has been announced.
func (a *Assembler) grow() {
	n := a.size
	switch {
	case !a.checked:
		n = min(n, HeadSize)
	case n > a.most:
		a.rec.Cut = true
		a.rec.Len = min(a.rec.Len, HeadSize)
		return
	}
	a.room = n
	if a.rec.Buf != nil && n <= len(a.rec.Buf.Data) {
		return
	}
	b := memory.Shared.Get(n)
	if a.rec.Buf != nil {
		copy(b.Data, a.rec.Bytes())
		a.rec.Buf.Release()
	}
	a.rec.Buf = b
}

// Drop releases an unfinished record, and ends the stream: who still writes would go on in the middle of what is gone.
func (a *Assembler) Drop() {
	if a.err == nil {
		a.err = net.ErrClosed
	}
	if a.rec.Buf != nil {
		a.rec.Buf.Release()
		a.rec = Record{}
	}
}
