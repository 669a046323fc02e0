package xdrreflect

import "github.com/stag-rdma/stag/xdr"

// checker walks octets as a plan says and allocates nothing.
type checker struct {
	d     xdr.Decoder
	lim   limits
	mem   int    // octets of memory that the value will take
	depth int    // nesting at the cursor
	deep  bool   // the walk has failed because it was above its limit
	where string // field in which the walk failed
	stop  bool   // at the item that may be reduced; not in a list or behind a pointer
	there bool   // the walk has come there
	skip  bool   // it does not stop, but steps over the data
	data  int    // that it has stepped over, with their pad
}

// walk checks one value. It reports false once the walk has failed.
func (c *checker) walk(p *plan) bool {
	switch p.form {
	case formSigned:
		c.signed(p)
	case formUnsigned:
		c.unsigned(p)
	case formHyper:
		c.d.Skip(8)
	case formFloat:
		c.d.Skip(4)
	case formBool:
		c.d.Bool()
	case formOpaque:
		c.alloc(2, len(c.d.Opaque(c.lim.octets)))
	case formFixed:
		c.d.FixedOpaque(p.n)
		c.alloc(1, p.n)
	case formSlice, formArray, formStruct, formPointer:
		c.nested(p)
	}
	return c.d.Err() == nil
}

// nested checks a value that holds others, one level down.
func (c *checker) nested(p *plan) {
	if c.depth++; c.depth > c.lim.depth {
		c.deep = true
		c.d.Fail(xdr.ErrRange)
		return
	}
	stop := c.stop
	c.stop = stop && p.form == formStruct // an item elsewhere is not the one of the type
	switch p.form {
	case formSlice:
		n := c.d.Count(c.lim.octets, p.elem.min)
		if c.alloc(int(p.elem.typ.Size()), n) {
			c.elements(p.elem, n)
		}
	case formArray:
		c.elements(p.elem, p.n)
	case formPointer:
		if c.alloc(int(p.elem.typ.Size()), 1) {
			c.walk(p.elem)
		}
	default:
		c.fields(p)
	}
	c.stop = stop
	c.depth--
}

func (c *checker) elements(p *plan, n int) {
	for range n {
		if !c.walk(p) {
			return
		}
	}
}

func (c *checker) fields(p *plan) {
	disc := int64(0)
	for i := range p.fields {
		f := &p.fields[i]
		if f.hasArm && int64(f.arm) != disc {
			if !c.absent(f.plan) {
				return
			}
			continue
		}
		if f.union {
			ahead := c.d
			disc = int64(ahead.Uint32())
			if f.form == formSigned {
				disc = int64(int32(disc))
			}
		}
		if c.stop && f.item {
			if c.there = true; !c.skip {
				return
			}
			n := len(c.d.Opaque(1<<31 - 1)) // lent, so it takes no memory
			c.data = n + xdr.Pad(n)
		} else if c.field(f); c.there && !c.skip {
			return
		}
		if c.d.Err() != nil {
			if c.where == "" { // the innermost field keeps its name
				c.where = p.typ.Name() + "." + f.name
			}
			return
		}
	}
}

// absent counts what go-xdr makes for an arm that is not there: the targets of a pointer.
func (c *checker) absent(p *plan) bool {
	for ; p.form == formPointer; p = p.elem {
		if !c.alloc(int(p.elem.typ.Size()), 1) {
			return false
		}
	}
	return true
}

// field checks one field that is there.
func (c *checker) field(f *field) {
	if f.optional && !c.d.Bool() {
		return
	}
	c.walk(f.plan)
}

func (c *checker) signed(p *plan) {
	v := int64(c.d.Int32())
	if half := int64(1) << (p.bits - 1); v < -half || v >= half {
		c.d.Fail(xdr.ErrRange)
	}
}

func (c *checker) unsigned(p *plan) {
	if v := uint64(c.d.Uint32()); v >= 1<<p.bits {
		c.d.Fail(xdr.ErrRange)
	}
}

// alloc counts n items of size octets and reports whether the memory is within
// its limit.
func (c *checker) alloc(size, n int) bool {
	if size > 0 && n > (c.lim.memory-c.mem)/size {
		c.d.Fail(xdr.ErrRange)
		return false
	}
	c.mem += size * n
	return true
}
