package xdr_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stag-rdma/stag/xdr"
	"pgregory.net/rapid"
)

// item is one XDR item: how this package writes it, and a naive writer.
type item struct {
	kind int
	num  uint64
	data []byte
}

func (i *item) append(b []byte) []byte {
	switch i.kind {
	case 0:
		return xdr.AppendUint32(b, uint32(i.num))
	case 1:
		return xdr.AppendInt64(b, int64(i.num))
	case 2:
		return xdr.AppendBool(b, i.num&1 == 1)
	case 3:
		return xdr.AppendFixedOpaque(b, i.data)
	case 4:
		return xdr.AppendOpaque(b, i.data)
	case 5:
		return xdr.AppendString(b, string(i.data))
	case 6:
		return xdr.AppendInt32(b, int32(i.num))
	}
	return xdr.AppendUint64(b, i.num)
}

// naive writes the item octet by octet.
func (i *item) naive(w *bytes.Buffer) {
	switch i.kind {
	case 0, 6:
		_ = binary.Write(w, binary.BigEndian, uint32(i.num))
	case 1, 7:
		_ = binary.Write(w, binary.BigEndian, i.num)
	case 2:
		w.Write([]byte{0, 0, 0, byte(i.num & 1)})
	default:
		if i.kind != 3 {
			_ = binary.Write(w, binary.BigEndian, uint32(len(i.data)))
		}
		for n := range (len(i.data) + 3) / 4 * 4 {
			c := byte(0)
			if n < len(i.data) {
				c = i.data[n]
			}
			w.WriteByte(c)
		}
	}
}

// read reads the item back and reports whether it is the same.
func (i *item) read(d *xdr.Decoder) bool {
	switch i.kind {
	case 0:
		return d.Uint32() == uint32(i.num)
	case 1:
		return d.Int64() == int64(i.num)
	case 2:
		return d.Bool() == (i.num&1 == 1)
	case 3:
		return bytes.Equal(d.FixedOpaque(len(i.data)), i.data)
	case 4:
		return bytes.Equal(d.Opaque(len(i.data)), i.data)
	case 5:
		return d.String(len(i.data)) == string(i.data)
	case 6:
		return d.Int32() == int32(i.num)
	}
	return d.Uint64() == i.num
}

// Any sequence of items: the same octets as the naive writer, read back whole,
// and no prefix of it reads.
func TestItemsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) item {
			return item{
				kind: rapid.IntRange(0, 7).Draw(t, "kind"),
				num:  rapid.Uint64().Draw(t, "num"),
				data: rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "data"),
			}
		}), 1, 8).Draw(t, "items")
		b, w := dirty(256), new(bytes.Buffer)
		for i := range items {
			b = items[i].append(b)
			items[i].naive(w)
		}
		if !bytes.Equal(b, w.Bytes()) {
			t.Fatalf("wrote %x, want %x", b, w.Bytes())
		}
		d := xdr.NewDecoder(b)
		for i := range items {
			if !items[i].read(&d) {
				t.Fatalf("item %d of %x does not read back: %v", i, b, d.Err())
			}
		}
		if err := d.End(); err != nil {
			t.Fatal(err)
		}
		for n := range b {
			d := xdr.NewDecoder(b[:n])
			for i := range items {
				items[i].read(&d)
			}
			if d.Err() == nil {
				t.Fatalf("the first %d of %d octets read without error", n, len(b))
			}
		}
	})
}
