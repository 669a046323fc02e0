package xdr_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"testing"

	"github.com/stag-rdma/stag/xdr"
)

type color uint32

// coded has one field of each kind.
type coded struct {
	N     uint32
	Color color
	Wide  uint64
	Some  bool
	Key   [5]byte
	Data  []byte
	Name  string
}

func (m *coded) Code(c *xdr.Coder) {
	c.Uint32(&m.N)
	xdr.Enum(c, &m.Color, 1, 3)
	c.Uint64(&m.Wide)
	if c.Bool(&m.Some) {
		c.Fixed(m.Key[:])
	}
	c.Opaque(&m.Data, 3)
	c.String(&m.Name, 4)
}

// listed has a list and an array, too.
type listed struct {
	coded
	List, Array []uint32
}

func (m *listed) Code(c *xdr.Coder) {
	m.coded.Code(c)
	xdr.Array(c, &m.Array, 2, 4, func(e *uint32, c *xdr.Coder) { c.Uint32(e) })
	xdr.List(c, &m.List, func(e *uint32, c *xdr.Coder) { c.Uint32(e) })
}

// TestCoder: the fields are written as RFC 4506 says, read again, and held to their bounds. Without a list or array nothing is
// allocated, but for a copy of a string.
func TestCoder(t *testing.T) {
	m := listed{coded{N: 1, Color: 3, Wide: 5, Some: true, Key: [5]byte{6, 6, 6, 6, 7}, Data: []byte("abc"), Name: "wxyz"}, []uint32{8, 9}, []uint32{4, 5}}
	const want = "00000001" + "00000003" + "0000000000000005" + "00000001" + "0606060607000000" + "0000000361626300" + "000000047778797a" +
		"00000002" + "00000004" + "00000005" + "00000001" + "00000008" + "00000001" + "00000009" + "00000000"
	b := xdr.Encode(nil, &m)
	if got := hex.EncodeToString(b); got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	d := xdr.NewDecoder(b)
	back := listed{List: make([]uint32, 7), Array: make([]uint32, 7)}
	if err := xdr.Decode(&d, &back).End(); err != nil || !reflect.DeepEqual(back, m) {
		t.Errorf("%+v, %v", back, err)
	}
	for _, x := range []struct {
		at   int
		to   byte
		want error
	}{{7, 0, xdr.ErrRange}, {7, 4, xdr.ErrRange}, {19, 2, xdr.ErrRange}, {31, 4, xdr.ErrRange}, {39, 5, xdr.ErrRange}, {47, 3, xdr.ErrRange}, {59, 2, xdr.ErrRange}, {75, 1, xdr.ErrShort}} {
		bad := bytes.Clone(b)
		bad[x.at] = x.to
		d := xdr.NewDecoder(bad)
		var m listed
		if err := xdr.Decode(&d, &m).ErrIn("coded"); !errors.Is(err, x.want) || m.Color != 3 && m.Color != 1 {
			t.Errorf("octet %d is %d: %v, want %v; %+v", x.at, x.to, err, x.want, m)
		}
	}
	flat := m.coded
	flat.Name = ""
	b = xdr.Encode(b[:0], &flat)
	if n := testing.AllocsPerRun(100, func() {
		var m coded
		d := xdr.NewDecoder(b)
		if xdr.Decode(&d, &m).Err() != nil {
			t.Error(d.Err())
		}
		b = xdr.Encode(b[:0], &m)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
