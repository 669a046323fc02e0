package xdr_test

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/xdr"
)

// Each item: octets, the read, the value, and every prefix of the octets must
// fail with ErrShort, consume nothing and name the start of the item.
func TestDecoderItems(t *testing.T) {
	for _, tc := range []struct {
		name string
		hex  string
		read func(d *xdr.Decoder) any
		want any
	}{
		{"uint32", "fffffffe", func(d *xdr.Decoder) any { return d.Uint32() }, uint32(0xfffffffe)},
		{"int32", "fffffffe", func(d *xdr.Decoder) any { return d.Int32() }, int32(-2)},
		{"uint64", "fffffffe00000001", func(d *xdr.Decoder) any { return d.Uint64() }, uint64(0xfffffffe00000001)},
		{"int64", "fffffffffffffffe", func(d *xdr.Decoder) any { return d.Int64() }, int64(-2)},
		{"false", "00000000", func(d *xdr.Decoder) any { return d.Bool() }, false},
		{"true", "00000001", func(d *xdr.Decoder) any { return d.Bool() }, true},
		{"fixed 1", "61000000", func(d *xdr.Decoder) any { return string(d.FixedOpaque(1)) }, "a"},
		{"fixed 4", "61626364", func(d *xdr.Decoder) any { return string(d.FixedOpaque(4)) }, "abcd"},
		{"fixed 5", "6162636465000000", func(d *xdr.Decoder) any { return string(d.FixedOpaque(5)) }, "abcde"},
		{"pad not zero", "610000ff", func(d *xdr.Decoder) any { return string(d.FixedOpaque(1)) }, "a"},
		{"opaque 0", "00000000", func(d *xdr.Decoder) any { return len(d.Opaque(0)) }, 0},
		{"opaque 3", "0000000361626300", func(d *xdr.Decoder) any { return string(d.Opaque(3)) }, "abc"},
		{"opaque max", "0000000461626364", func(d *xdr.Decoder) any { return string(d.Opaque(math.MaxInt)) }, "abcd"},
		{"string", "0000000261620000", func(d *xdr.Decoder) any { return d.String(255) }, "ab"},
		{"skip", "616263", func(d *xdr.Decoder) any { d.Skip(3); return d.Offset() }, 3},
		{"count 2", "000000020000000100000002", func(d *xdr.Decoder) any {
			n := d.Count(2, 4)
			d.Skip(4 * n)
			return n
		}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := unhex(t, tc.hex)
			d := xdr.NewDecoder(b)
			if got := tc.read(&d); got != tc.want || d.End() != nil {
				t.Errorf("read = %v, want %v (%v)", got, tc.want, d.End())
			}
			if d.Offset() != len(b) {
				t.Errorf("offset %d, want %d", d.Offset(), len(b))
			}
			for n := range b {
				d := xdr.NewDecoder(b[:n])
				tc.read(&d)
				var de *xdr.DecodeError
				if err := d.Err(); !errors.Is(err, xdr.ErrShort) || !errors.As(err, &de) || de.Off != 0 {
					t.Errorf("of the first %d octets: %v, want ErrShort at octet 0", n, err)
				}
				if d.Len() != 0 || d.Rest() != nil {
					t.Errorf("octets left after an error: %x", d.Rest())
				}
			}
		})
	}
}

func TestDecoderRange(t *testing.T) {
	for _, tc := range []struct {
		name string
		hex  string
		read func(d *xdr.Decoder)
		want error
	}{
		{"bool 2", "00000002", func(d *xdr.Decoder) { d.Bool() }, xdr.ErrRange},
		{"bool -1", "ffffffff", func(d *xdr.Decoder) { d.Bool() }, xdr.ErrRange},
		{"fixed negative", "00000000", func(d *xdr.Decoder) { d.FixedOpaque(-1) }, xdr.ErrRange},
		{"fixed huge", "00000000", func(d *xdr.Decoder) { d.FixedOpaque(math.MaxInt) }, xdr.ErrShort},
		{"opaque above max", "0000000561626364", func(d *xdr.Decoder) { d.Opaque(4) }, xdr.ErrRange},
		{"opaque negative max", "00000000", func(d *xdr.Decoder) { d.Opaque(-1) }, xdr.ErrRange},
		{"opaque 2^32-1", "ffffffff", func(d *xdr.Decoder) { d.Opaque(math.MaxInt32) }, xdr.ErrRange},
		{"opaque 2^31", "80000000", func(d *xdr.Decoder) { d.Opaque(math.MaxInt) }, nil}, // either
		{"string above max", "0000000561626364", func(d *xdr.Decoder) { _ = d.String(4) }, xdr.ErrRange},
		{"skip negative", "00000000", func(d *xdr.Decoder) { d.Skip(-1) }, xdr.ErrRange},
		{"skip min", "00000000", func(d *xdr.Decoder) { d.Skip(math.MinInt) }, xdr.ErrRange},
		{"count above max", "000000020000000000000000", func(d *xdr.Decoder) { d.Count(1, 4) }, xdr.ErrRange},
		{"count above octets", "000000020000000000000000", func(d *xdr.Decoder) { d.Count(9, 8) }, xdr.ErrShort},
		{"count 2^32-1", "ffffffff", func(d *xdr.Decoder) { d.Count(math.MaxInt32, 1) }, xdr.ErrRange},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := xdr.NewDecoder(unhex(t, tc.hex))
			tc.read(&d)
			err := d.Err()
			if err == nil || tc.want != nil && !errors.Is(err, tc.want) {
				t.Fatalf("error %v, want %v", err, tc.want)
			}
			if de := err.(*xdr.DecodeError); de.Off != 0 {
				t.Errorf("offset %d, want 0", de.Off)
			}
		})
	}
}

func TestDecoderErrors(t *testing.T) {
	own := errors.New("own")
	d := xdr.NewDecoder(make([]byte, 8))
	d.Fail(nil)
	d.Uint32()
	if d.Err() != nil || d.ErrIn("x") != nil {
		t.Fatal("error without a cause")
	}
	d.Fail(own)
	if err := d.ErrIn("verf"); !errors.Is(err, own) || err.Error() != "xdr: verf at octet 4: own" {
		t.Errorf("ErrIn = %v", err)
	}
	d = xdr.NewDecoder(nil)
	d.Fail(&xdr.DecodeError{Off: 7, Err: xdr.ErrRange})
	if err := d.ErrIn("outer"); err.Error() != "xdr: outer at octet 7: value out of range" {
		t.Errorf("an error without a name became %v", err)
	}
	d = xdr.NewDecoder(nil)
	d.Fail(&xdr.DecodeError{Field: "inner", Off: 7, Err: xdr.ErrRange})
	if err := d.ErrIn("outer"); err.Error() != "xdr: inner at octet 7: value out of range" {
		t.Errorf("an error with a name became %v", err)
	}
	d = xdr.NewDecoder(make([]byte, 5))
	d.Uint32()
	if err := d.End(); !errors.Is(err, xdr.ErrTrailing) || err.Error() != "xdr: at octet 4: octets left after the last item" {
		t.Errorf("End = %v", err)
	}
}

// Views end where their item ends: an append to one cannot reach the next.
func TestViewsAreBounded(t *testing.T) {
	b := xdr.AppendOpaque(xdr.AppendOpaque(nil, []byte("abcde")), []byte("xyz"))
	orig := slices.Clone(b)
	d := xdr.NewDecoder(b)
	v := d.Opaque(8)
	if len(v) != 5 || cap(v) != 5 || &v[0] != &b[4] {
		t.Errorf("view len %d cap %d, want 5 and 5, of the input", len(v), cap(v))
	}
	_ = append(v, "!!!!!!"...)
	if !bytes.Equal(b, orig) {
		t.Error("append to a view changed the input")
	}
	if empty := xdr.NewDecoder(make([]byte, 4)); true {
		if v := empty.Opaque(1); v == nil || len(v) != 0 {
			t.Errorf("empty opaque = %v, want empty and not nil", v)
		}
	}
}

// A copy of a cursor looks ahead without moving the first.
func TestDecoderCopy(t *testing.T) {
	d := xdr.NewDecoder([]byte{0, 0, 0, 1, 0, 0, 0, 2})
	ahead := d
	ahead.Uint32()
	ahead.Uint64()
	if ahead.Err() == nil || d.Err() != nil || d.Uint32() != 1 || d.Offset() != 4 || d.Len() != 4 {
		t.Errorf("the copy moved the cursor to %d (%v)", d.Offset(), d.Err())
	}
}
