package xdr

import "encoding/binary"

// Pad returns how many zero octets, 0 to 3, follow n octets of data so that
// the next item starts at a multiple of 4 (RFC 4506 Section 3). n ≥ 0.
func Pad(n int) int { return -n & 3 }

// Decoder is a cursor over XDR octets (RFC 4506 Section 4). It borrows the
// input for its lifetime and what it returns is bounded by it: no read goes
// beyond the input, no value makes it allocate (String copies what is there).
//
// The first error sticks: every later read returns a zero value and consumes
// nothing. The zero Decoder is a cursor over no octets. A Decoder is a small
// value; it may be copied to look ahead.
type Decoder struct {
	b   []byte // what is left; nil after the first error
	n   int    // length of the whole input
	at  int    // offset of the failed item, valid once err is set
	err error  // first cause: a sentinel or the error given to Fail
}

// NewDecoder returns a cursor at the start of b. It borrows b: the views it
// returns alias b.
func NewDecoder(b []byte) Decoder { return Decoder{b: b, n: len(b)} }

// short records that the item at the cursor does not fit in what is left.
// Kept out of line: the reads of one word are at the compiler's bound for
// inlining (go build -gcflags=-m=2 says 79 and 80 of 80).
//
//go:noinline
func (d *Decoder) short() { d.fail(d.Offset(), ErrShort) }

// fail records the first error, with the offset of the item it is about.
func (d *Decoder) fail(off int, err error) {
	if d.err == nil {
		d.at, d.err, d.b = off, err, nil
	}
}

// Uint32 reads an unsigned integer: 4 octets (RFC 4506 Section 4.2).
func (d *Decoder) Uint32() (v uint32) {
	if len(d.b) >= 4 {
		v = binary.BigEndian.Uint32(d.b)
		d.b = d.b[4:]
	} else {
		d.short()
	}
	return
}

// Int32 reads an integer or an enum of any value: 4 octets (RFC 4506
// Section 4.1 and 4.3).
func (d *Decoder) Int32() (v int32) {
	if len(d.b) >= 4 {
		v = int32(binary.BigEndian.Uint32(d.b))
		d.b = d.b[4:]
	} else {
		d.short()
	}
	return
}

// Uint64 reads an unsigned hyper integer: 8 octets (RFC 4506 Section 4.5).
func (d *Decoder) Uint64() (v uint64) {
	if len(d.b) >= 8 {
		v = binary.BigEndian.Uint64(d.b)
		d.b = d.b[8:]
	} else {
		d.short()
	}
	return
}

// Int64 reads a hyper integer: 8 octets (RFC 4506 Section 4.5).
func (d *Decoder) Int64() (v int64) {
	if len(d.b) >= 8 {
		v = int64(binary.BigEndian.Uint64(d.b))
		d.b = d.b[8:]
	} else {
		d.short()
	}
	return
}

// Bool reads a boolean: 4 octets, 0 or 1 (RFC 4506 Section 4.4). Any other
// value is ErrRange.
func (d *Decoder) Bool() bool {
	v := d.Uint32()
	if v > 1 {
		d.fail(d.Offset()-4, ErrRange)
	}
	return v == 1
}

// FixedOpaque reads opaque[n]: n octets and their pad (RFC 4506 Section 4.9).
// It returns a view of the n octets, cap n, or nil on error. A negative n is
// ErrRange.
func (d *Decoder) FixedOpaque(n int) []byte {
	return d.take(n, d.Offset())
}

// take returns a view of the next n octets and skips their pad; an error is
// reported at offset off, where the item starts.
func (d *Decoder) take(n, off int) []byte {
	if n < 0 {
		d.fail(off, ErrRange)
		return nil
	}
	// n is compared alone first, so that n plus pad cannot overflow.
	if n > len(d.b) || n+Pad(n) > len(d.b) {
		d.fail(off, ErrShort)
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n+Pad(n):]
	return v
}

// Opaque reads opaque<max>: a count word, that many octets and their pad (RFC
// 4506 Section 4.10). It returns a view, cap cut to its length, or nil on
// error. A count above max is ErrRange, one above the octets left ErrShort; a
// negative max allows nothing. An item of no octets is an empty, non-nil view.
func (d *Decoder) Opaque(max int) []byte {
	off := d.Offset()
	n := d.Uint32()
	if d.err != nil {
		return nil
	}
	if int64(n) > int64(max) {
		d.fail(off, ErrRange)
		return nil
	}
	// The same bound again, as an int: on 32-bit machines a count may not
	// fit one.
	if uint64(n) > uint64(len(d.b)) {
		d.fail(off, ErrShort)
		return nil
	}
	return d.take(int(n), off)
}

// String reads string<max> (RFC 4506 Section 4.11) and copies it. Errors are
// those of Opaque. The octets are not checked to be UTF-8 or free of NUL.
func (d *Decoder) String(max int) string { return string(d.Opaque(max)) }

// Count reads the count word of T<max> (RFC 4506 Section 4.13), where one T
// takes at least size octets, size ≥ 1. A count above max is ErrRange, one
// that the octets left cannot hold is ErrShort; both return 0. So a caller may
// allocate and loop by the result.
func (d *Decoder) Count(max, size int) int {
	off := d.Offset()
	n := d.Uint32()
	switch {
	case d.err != nil:
		return 0
	case int64(n) > int64(max):
		d.fail(off, ErrRange)
		return 0
	case int64(n) > int64(len(d.b)/size):
		d.fail(off, ErrShort)
		return 0
	}
	return int(n)
}

// Skip moves the cursor n octets on, without pad. A negative n is ErrRange,
// one above the octets left ErrShort.
func (d *Decoder) Skip(n int) {
	if uint(n) <= uint(len(d.b)) {
		d.b = d.b[n:]
		return
	}
	if n < 0 {
		d.fail(d.Offset(), ErrRange)
		return
	}
	d.short()
}

// Offset returns the octets consumed; after an error, the offset of the item
// that failed.
func (d *Decoder) Offset() int {
	if d.err != nil {
		return d.at
	}
	return d.n - len(d.b)
}

// Len returns the octets left; 0 after an error.
func (d *Decoder) Len() int { return len(d.b) }

// Rest returns a view of the octets left and does not move the cursor; nil
// after an error.
func (d *Decoder) Rest() []byte { return d.b }

// Err returns nil, or the first error as a *[DecodeError].
func (d *Decoder) Err() error { return d.ErrIn("") }

// ErrIn is Err with the name of the field or structure that was being read.
// It keeps the name of an error that has one already.
func (d *Decoder) ErrIn(field string) error {
	if d.err == nil {
		return nil
	}
	return d.wrap(field)
}

// wrap is the cold half of ErrIn.
func (d *Decoder) wrap(field string) error {
	if e, ok := d.err.(*DecodeError); ok { //nolint:errorlint // not one wrapped in another error: that error is the cause
		if e.Field != "" || field == "" {
			return e
		}
		return &DecodeError{Field: field, Off: e.Off, Err: e.Err}
	}
	return &DecodeError{Field: field, Off: d.at, Err: d.err}
}

// End returns the first error, or one that wraps [ErrTrailing] when octets
// are left.
func (d *Decoder) End() error {
	if len(d.b) > 0 {
		d.fail(d.Offset(), ErrTrailing)
	}
	return d.ErrIn("")
}

// Fail records err, at the cursor, as the error of the cursor unless it has
// one: for values whose rules this package does not know. A *[DecodeError]
// keeps its own field and offset. A nil err does nothing.
func (d *Decoder) Fail(err error) {
	if err != nil {
		d.fail(d.Offset(), err)
	}
}

// failBack records err for the 4-octet word just read.
func (d *Decoder) failBack(field string, err error) {
	if d.err == nil {
		off := d.Offset() - 4
		d.fail(off, &DecodeError{Field: field, Off: off, Err: err})
	}
}

// name gives the error, if it has none, the name of the field being read, so
// that a header names the field that failed and not only itself.
func (d *Decoder) name(field string) {
	if d.err != nil {
		d.err = d.wrap(field)
	}
}
