package xdrreflect_test

import (
	"bytes"
	"testing"

	oracle "github.com/davecgh/go-xdr/xdr2"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stag-rdma/stag/xdr/xdrreflect"
)

// genLists draws a value with every form of a variable size.
func genLists(t *rapid.T) lists {
	octets := rapid.SliceOfN(rapid.Byte(), 1, 20)
	v := lists{
		S:  rapid.String().Draw(t, "s"),
		O:  octets.Draw(t, "o"),
		N:  rapid.SliceOfN(rapid.Uint32(), 1, 8).Draw(t, "n"),
		SS: rapid.SliceOfN(rapid.String(), 1, 4).Draw(t, "ss"),
		A:  [2]int16{rapid.Int16().Draw(t, "a0"), rapid.Int16().Draw(t, "a1")},
		P:  new(rapid.Uint32().Draw(t, "p")),
		B8: octets.Draw(t, "b8"),
	}
	copy(v.F[:], octets.Draw(t, "f"))
	return v
}

func genScalars(t *rapid.T) scalars {
	return scalars{
		B: rapid.Bool().Draw(t, "b"), I8: rapid.Int8().Draw(t, "i8"), I16: rapid.Int16().Draw(t, "i16"),
		I32: rapid.Int32().Draw(t, "i32"), I: int(rapid.Int32().Draw(t, "i")), I64: rapid.Int64().Draw(t, "i64"),
		U8: rapid.Uint8().Draw(t, "u8"), U16: rapid.Uint16().Draw(t, "u16"), U32: rapid.Uint32().Draw(t, "u32"),
		U: uint(rapid.Uint32().Draw(t, "u")), U64: rapid.Uint64().Draw(t, "u64"),
		F32: rapid.Float32().Draw(t, "f32"), F64: rapid.Float64().Draw(t, "f64"),
	}
}

// The same octets as github.com/davecgh/go-xdr writes, and the same value as
// it reads, for the types that it has a form for.
func TestAgainstOracle(t *testing.T) {
	type both struct {
		Sc scalars
		Li lists
	}
	rapid.Check(t, func(t *rapid.T) {
		v := both{genScalars(t), genLists(t)}
		b, err := xdrreflect.Marshal(&v)
		if err != nil {
			t.Fatal(err)
		}
		w := new(bytes.Buffer)
		if _, err := oracle.Marshal(w, &v); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b, w.Bytes()) {
			t.Fatalf("wrote %x, oracle %x", b, w.Bytes())
		}
		var got, want both
		if rest, err := xdrreflect.Unmarshal(b, &got); err != nil || len(rest) != 0 {
			t.Fatalf("%d octets left, %v", len(rest), err)
		}
		if _, err := oracle.Unmarshal(bytes.NewReader(b), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, exporter); diff != "" {
			t.Fatalf("-oracle +ours:\n%s", diff)
		}
		if diff := cmp.Diff(v, got, exporter); diff != "" {
			t.Fatalf("-written +read:\n%s", diff)
		}
	})
}
