package xdr

// Message is arguments or results of a procedure, or a part of them: Code lists its fields, once for both directions.
//
//	func (m *Res) Code(c *xdr.Coder) {
//		if xdr.Word(c, &m.Status) == OK {
//			c.Opaque(&m.Handle, 64)
//		}
//	}
//
//	b = xdr.Encode(b, &res)
//	err := xdr.Decode(&d, &res).Err()
type Message interface {
	Code(c *Coder)
}

// Coder writes or reads the fields of a [Message]. What it writes it copies; what it reads is lent or copied as by [Decoder], whose
// errors it shares: after the first one it reads zero values. Bounds are those of reading; what is written must keep them.
// Functions that return a value return the one that was written or read.
type Coder struct {
	d     Decoder // a copy: a pointer would escape
	reads bool
	b     []byte // written so far
}

// Encode appends the octets of m to b. Where the type of m is known, nothing is allocated: Encode and Decode are inlined, though
// just so (go build -gcflags=-m=2 says 72 and 79 of 80), and then Code is called as if it were no interface's.
func Encode(b []byte, m Message) []byte {
	c := Coder{b: b}
	m.Code(&c)
	return c.b
}

// Decode reads m from d, and returns d for its error. See Encode.
func Decode(d *Decoder, m Message) *Decoder {
	c := Coder{d: *d, reads: true}
	m.Code(&c)
	*d = c.d
	return d
}

// Reads reports whether the fields are read.
func (c *Coder) Reads() bool { return c.reads }

// Fail is [Decoder.Fail], for values that a field must not have. It does nothing if the fields are written.
func (c *Coder) Fail(err error) { c.d.Fail(err) }

// Uint32 is unsigned integers, one behind the other.
func (c *Coder) Uint32(ps ...*uint32) {
	for _, p := range ps {
		if c.reads {
			*p = c.d.Uint32()
		} else {
			c.b = AppendUint32(c.b, *p)
		}
	}
}

// Word is an unsigned integer of a type of its own, or an enum of any value.
func Word[T ~uint32](c *Coder, p *T) T {
	if c.reads {
		*p = T(c.d.Uint32())
	} else {
		c.b = AppendUint32(c.b, uint32(*p))
	}
	return *p
}

// Enum is an enum that must be in [least, most]. Otherwise it is least, and the error ErrRange.
func Enum[T ~uint32](c *Coder, p *T, least, most T) T {
	if v := Word(c, p); c.reads && (v < least || v > most) {
		c.d.Fail(ErrRange) // also after an error, which stays
		*p = least
	}
	return *p
}

// Uint64 is unsigned hyper integers.
func (c *Coder) Uint64(ps ...*uint64) {
	for _, p := range ps {
		if c.reads {
			*p = c.d.Uint64()
		} else {
			c.b = AppendUint64(c.b, *p)
		}
	}
}

// Bool is a boolean, as what precedes an optional field is.
func (c *Coder) Bool(p *bool) bool {
	if c.reads {
		*p = c.d.Bool()
	} else {
		c.b = AppendBool(c.b, *p)
	}
	return *p
}

// Fixed is opaque[len(p)]. After an error it leaves p as it is.
func (c *Coder) Fixed(p []byte) {
	if c.reads {
		copy(p, c.d.FixedOpaque(len(p)))
	} else {
		c.b = AppendFixedOpaque(c.b, p)
	}
}

// Opaque is opaque<most>.
func (c *Coder) Opaque(p *[]byte, most int) {
	if c.reads {
		*p = c.d.Opaque(most)
	} else {
		c.b = AppendOpaque(c.b, *p)
	}
}

// String is string<most>.
func (c *Coder) String(p *string, most int) {
	if c.reads {
		*p = c.d.String(most)
	} else {
		c.b = AppendString(c.b, *p)
	}
}

// List is a linked list: TRUE before each element, and FALSE behind the last. Reading reuses the capacity of *p.
func List[T any](c *Coder, p *[]T, code func(*T, *Coder)) {
	if !c.reads {
		for i := range *p {
			c.b = AppendBool(c.b, true)
			code(&(*p)[i], c)
		}
		c.b = AppendBool(c.b, false)
		return
	}
	for *p = (*p)[:0]; c.d.Bool(); {
		var e T
		code(&e, c)
		*p = append(*p, e)
	}
}

// Array is T<most>, where one T takes at least size octets.
func Array[T any](c *Coder, p *[]T, most, size int, code func(*T, *Coder)) {
	if c.reads {
		*p = append((*p)[:0], make([]T, c.d.Count(most, size))...) // a count that the octets do not bear out is none
	} else {
		c.b = AppendUint32(c.b, uint32(len(*p)))
	}
	for i := range *p {
		code(&(*p)[i], c)
	}
}
