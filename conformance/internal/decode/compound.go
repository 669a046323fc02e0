package decode

import (
	"fmt"

	"github.com/stag-rdma/stag/xdr"
)

// Compound is an NFSv4 COMPOUND or CB_COMPOUND, decoded down to its operations (RFC 8881 Sections 16.2 and
// 20.1).
type Compound struct {
	Tag    string
	Minor  uint32 // of a call: minorversion
	Status uint32 // of a reply: the status of the last operation
	NumOps uint32 // operations announced

	// Ops are the operations that could be reached, in order. Err says why there are fewer than NumOps, or
	// why the arguments or results of the last one could not be skipped.
	Ops []NFSOp
	Err error
}

// NFSOp is one operation of a Compound.
type NFSOp struct {
	Num    uint32
	Name   string // "PUTFH"; "op-99" if no RFC defines it
	Status uint32 // of a result
	// Body holds the arguments, or the results after the status. Lent with the event.
	Body []byte
	// Moved is how many of its octets travel in a chunk and are not in Body.
	Moved int
}

// maxOps bounds the operations kept of one COMPOUND; servers allow a few tens.
const maxOps = 1024

// compounds walks a COMPOUND.
type compounds struct {
	walker
	c     *Compound
	ops   map[uint32]nfsOp
	reply bool
	op    *NFSOp // in progress
}

// newCompound decodes the arguments or results of a COMPOUND. moved reports whether the item at which d
// stands travels in a chunk; it is nil if everything is in body.
func newCompound(body []byte, callback, reply bool, moved func(at, n int) bool) *Compound {
	w := compounds{walker: walker{d: xdr.NewDecoder(body)}, c: new(Compound), ops: nfs4Ops, reply: reply}
	if callback {
		w.ops = nfs4Callbacks
	}
	w.moved = func(n int) bool {
		if moved == nil || !moved(w.d.Offset(), n) {
			return false
		}
		w.op.Moved += n
		return true
	}
	w.head(callback)
	for i := uint32(0); i < w.c.NumOps && w.c.Err == nil; i++ {
		w.next(body)
	}
	if n := w.d.Len(); n > 0 && w.c.Err == nil {
		w.c.Err = fmt.Errorf("%w: %d octets after the operations", ErrTrailing, n)
	}
	return w.c
}

// head reads the fields before the operations.
func (w *compounds) head(callback bool) {
	c, d := w.c, &w.d
	if w.reply {
		c.Status = d.Uint32()
	}
	c.Tag = d.String(d.Len())
	if !w.reply {
		c.Minor = d.Uint32()
		if callback {
			d.Skip(4) // callback_ident
		}
	}
	c.NumOps = d.Uint32()
	c.Err = d.Err()
}

// next reads one operation.
func (w *compounds) next(body []byte) {
	c, d := w.c, &w.d
	if len(c.Ops) >= maxOps {
		c.Err = fmt.Errorf("%w: more than %d operations", ErrTooLong, maxOps)
		return
	}
	num := d.Uint32()
	if c.Err = d.Err(); c.Err != nil {
		return
	}
	spec, known := w.ops[num]
	if !known {
		spec.name = "op-" + decimal(num)
	}
	c.Ops = append(c.Ops, NFSOp{Num: num, Name: spec.name})
	w.op = &c.Ops[len(c.Ops)-1]
	if !known {
		c.Err = fmt.Errorf("operation %d: %w", num, xdr.ErrRange)
		return
	}
	from := d.Offset()
	if w.reply {
		status := *d // the union of the results begins with it
		w.op.Status = status.Uint32()
		from += 4
		w.run("@{0 " + spec.res + "|" + spec.fail + "_ }")
	} else {
		w.run(spec.args)
	}
	if c.Err = d.ErrIn(spec.name); c.Err == nil {
		w.op.Body = body[from:d.Offset():d.Offset()]
	}
}
