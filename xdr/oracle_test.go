package xdr_test

import (
	"bytes"
	"testing"

	oracle "github.com/davecgh/go-xdr/xdr2"
	"github.com/stag-rdma/stag/xdr"
	"pgregory.net/rapid"
)

// Every primitive, and headers made of them, in both directions against
// github.com/davecgh/go-xdr.
func TestAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := struct {
			U32 uint32
			I32 int32
			U64 uint64
			I64 int64
			B   bool
			O   []byte
			S   string
		}{
			rapid.Uint32().Draw(t, "u32"), rapid.Int32().Draw(t, "i32"), rapid.Uint64().Draw(t, "u64"),
			rapid.Int64().Draw(t, "i64"), rapid.Bool().Draw(t, "b"),
			rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "o"), rapid.String().Draw(t, "s"),
		}
		w := new(bytes.Buffer)
		if _, err := oracle.Marshal(w, &v); err != nil {
			t.Fatal(err)
		}
		b := xdr.AppendUint64(xdr.AppendUint64(xdr.AppendUint32(xdr.AppendUint32(nil, v.U32), uint32(v.I32)), v.U64), uint64(v.I64))
		b = xdr.AppendString(xdr.AppendOpaque(xdr.AppendBool(b, v.B), v.O), v.S)
		if !bytes.Equal(b, w.Bytes()) {
			t.Fatalf("wrote %x, oracle %x", b, w.Bytes())
		}
		d := xdr.NewDecoder(w.Bytes())
		if d.Uint32() != v.U32 || d.Int32() != v.I32 || d.Uint64() != v.U64 || d.Int64() != v.I64 ||
			d.Bool() != v.B || !bytes.Equal(d.Opaque(40), v.O) || d.String(len(v.S)) != v.S || d.End() != nil {
			t.Fatalf("read of %x: %v", w.Bytes(), d.Err())
		}
	})
}

// Any octets: where we read, the oracle reads the same; where we refuse, it
// does, or refuses to be bounded.
func FuzzAgainstOracle(f *testing.F) {
	f.Add(unhex(f, "00000001000000000000000200000001000000036162630000000002616200ff"))
	f.Add(unhex(f, "000000010000000000000002000000020000000361626300"))
	f.Fuzz(func(t *testing.T, b []byte) {
		d := xdr.NewDecoder(b)
		u32, i64, flag, o, s := d.Uint32(), d.Int64(), d.Bool(), d.Opaque(1<<16), d.String(1<<16)
		od := oracle.NewDecoderLimited(bytes.NewReader(b), 1<<16)
		wu32, _, e1 := od.DecodeUint()
		wi64, _, e2 := od.DecodeHyper()
		wflag, _, e3 := od.DecodeBool()
		wo, _, e4 := od.DecodeOpaque()
		ws, n, e5 := od.DecodeString()
		failed := e1 != nil || e2 != nil || e3 != nil || e4 != nil || e5 != nil
		if failed != (d.Err() != nil) {
			t.Fatalf("we: %v, oracle: %v %v %v %v %v", d.Err(), e1, e2, e3, e4, e5)
		}
		if failed {
			return
		}
		if u32 != wu32 || i64 != wi64 || flag != wflag || !bytes.Equal(o, wo) || s != ws || n < 4 {
			t.Fatalf("we read %v %v %v %x %q, oracle %v %v %v %x %q", u32, i64, flag, o, s, wu32, wi64, wflag, wo, ws)
		}
	})
}
