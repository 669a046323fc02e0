package xdrreflect_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stag-rdma/stag/xdr"
	"github.com/stag-rdma/stag/xdr/xdrreflect"
	"pgregory.net/rapid"
)

type (
	record struct {
		Name string
		Data []byte `xdr:"ddp"`
		Tail uint32
	}
	outcome struct {
		Status uint32 `xdr:"union"`
		Data   []byte `xdr:"unioncase=0,ddp"`
		Errno  uint64 `xdr:"unioncase=5"`
	}
	// deep has its item in a structure in a structure, behind everything that a Path may meet.
	deep struct {
		Names  []string
		Next   *string `xdr:"optional"`
		Digest [5]byte
		Pair   [2]outcomeless
		In     struct{ Record record }
		Last   string
	}
	outcomeless struct {
		Kind  int32  `xdr:"union"`
		Short []byte `xdr:"unioncase=1"`
	}
)

func splitOf(t testing.TB, v any) *xdrreflect.Split {
	t.Helper()
	s, err := xdrreflect.SplitOf(reflect.TypeOf(v).Elem())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSplitGolden(t *testing.T) {
	for _, tt := range []struct {
		name string
		v    any
		hex  string
		pos  int
		item string
	}{
		{"between others", &record{"ab", []byte("12345"), 7}, "00000002 61620000 00000005 00000007", 12, "12345"},
		{"empty", &record{"ab", nil, 7}, "00000002 61620000 00000000 00000007", 12, ""},
		{"in its arm", &outcome{Data: []byte("123")}, "00000000 00000003", 8, "123"},
		{"in another arm", &outcome{Status: 5, Data: []byte("123"), Errno: 9}, "00000005 0000000000000009", 0, ""},
		{"in no arm", &outcome{Status: 1}, "00000001", 0, ""},
		{"no item", &struct{ A uint32 }{6}, "00000006", 0, ""},
		{"nothing", &struct{}{}, "", 0, ""},
	} {
		b, pos, item, err := splitOf(t, tt.v).Marshal(tt.v)
		if got := hex.EncodeToString(b); err != nil || got != strings.ReplaceAll(tt.hex, " ", "") || pos != tt.pos || string(item) != tt.item {
			t.Errorf("%s: %s at %d %q, %v; want %s at %d %q", tt.name, got, pos, item, err, tt.hex, tt.pos, tt.item)
		}
	}
}

func TestSplitTypes(t *testing.T) {
	type (
		node struct {
			Data []byte `xdr:"ddp"`
		}
		list struct {
			Data []byte `xdr:"ddp"`
			Next *list  `xdr:"optional"`
		}
	)
	for _, v := range []any{
		uint32(0),
		[]byte{},
		&node{},
		struct{ A, B node }{},
		struct{ A *node }{},
		struct{ A []node }{},
		struct{ A [2]node }{},
		struct {
			A *node `xdr:"optional"`
			B node
		}{},
		struct {
			A string `xdr:"ddp"`
		}{},
		struct {
			A [8]byte `xdr:"ddp"`
		}{},
		struct {
			A []uint32 `xdr:"ddp"`
		}{},
		struct {
			A []byte `xdr:"opaque=false,ddp"`
		}{},
		struct {
			A []byte `xdr:"ddp,ddp"`
		}{},
		struct{ C chan int }{},
	} {
		if _, err := xdrreflect.SplitOf(reflect.TypeOf(v)); !errors.Is(err, xdrreflect.ErrType) {
			t.Errorf("%T: %v, want ErrType", v, err)
		}
	}
	if s := splitOf(t, &list{}); !s.HasItem() { // the first one of the list
		t.Error("a list has no item")
	}
}

// TestSplitAgainstWhole: with its item put back, what Split makes is what Marshal makes, and both ways back
// lead to the value.
func TestSplitAgainstWhole(t *testing.T) {
	octets := rapid.SliceOfN(rapid.Byte(), 1, 40)
	text := rapid.StringN(0, 9, 9)
	rapid.Check(t, func(r *rapid.T) {
		in := deep{
			Names: rapid.SliceOfN(text, 1, 3).Draw(r, "names"),
			Pair:  [2]outcomeless{{Kind: 1, Short: octets.Draw(r, "short")}, {Kind: rapid.Int32Range(2, 4).Draw(r, "kind")}},
			Last:  text.Draw(r, "last"),
		}
		copy(in.Digest[:], octets.Draw(r, "digest"))
		if rapid.Bool().Draw(r, "optional") {
			in.Next = new(text.Draw(r, "next"))
		}
		in.In.Record = record{text.Draw(r, "name"), octets.Draw(r, "data"), rapid.Uint32().Draw(r, "tail")}
		whole, err := xdrreflect.Marshal(&in)
		if err != nil {
			r.Fatal(err)
		}
		s := splitOf(t, &in)
		b, pos, item, err := s.Marshal(&in)
		if err != nil || &item[0] != &in.In.Record.Data[0] {
			r.Fatalf("item %q, %v", item, err)
		}
		joined := append(append(append(b[:pos:pos], item...), make([]byte, xdr.Pad(len(item)))...), b[pos:]...)
		if !bytes.Equal(joined, whole) {
			r.Fatalf("split\n%x\nwhole\n%x", joined, whole)
		}
		for _, from := range []struct{ b, item []byte }{{b, item}, {whole, nil}} {
			var out deep
			if err := s.Unmarshal(from.b, from.item, &out); err != nil {
				r.Fatal(err)
			}
			if d := cmp.Diff(in, out); d != "" {
				r.Fatal(d)
			}
			if from.item == nil && &out.In.Record.Data[0] != &whole[bytes.Index(whole, b[:pos])+pos] {
				r.Fatal("the item was copied")
			}
		}
	})
}

func TestSplitRefuses(t *testing.T) {
	s := splitOf(t, &record{})
	for _, tt := range []struct {
		name, hex, item string
		want            error
	}{
		{"empty", "", "", xdr.ErrShort},
		{"a name that is cut", "00000008 61620000", "", xdr.ErrShort},
		{"no count", "00000002 61620000", "", xdr.ErrShort},
		{"a count that lies", "00000002 61620000 ffffffff 00000007", "", xdr.ErrRange},
		{"data that is cut", "00000002 61620000 00000009 00000007", "", xdr.ErrShort},
		{"no tail", "00000002 61620000 00000000", "", xdr.ErrShort},
		{"more than the value", "00000002 61620000 00000000 00000007 00000000", "", xdr.ErrTrailing},
		{"placed, another length", "00000002 61620000 00000004 00000007", "12345", xdr.ErrRange},
		{"placed, the data as well", "00000000 00000004 31323334 00000007", "1234", xdr.ErrTrailing},
	} {
		b, err := hex.DecodeString(strings.ReplaceAll(tt.hex, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		var item []byte
		if tt.item != "" {
			item = []byte(tt.item)
		}
		err = s.Unmarshal(b, item, new(record))
		if _, ok := errors.AsType[*xdr.DecodeError](err); !ok || !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

// FuzzSplit: what is read from any octets is what Unmarshal reads, and reads the same with its item apart.
func FuzzSplit(f *testing.F) {
	f.Add([]byte{0, 0, 0, 2, 'a', 'b', 0, 0, 0, 0, 0, 1, 9, 0, 0, 0, 0, 0, 0, 7})
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 9, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, fresh := range []func() any{
			func() any { return new(record) }, func() any { return new(outcome) }, func() any { return new(deep) }, func() any { return new(chain) },
		} {
			whole, apart, plain := fresh(), fresh(), fresh()
			s := splitOf(t, whole)
			tail, perr := xdrreflect.Unmarshal(b, plain)
			err := s.Unmarshal(b, nil, whole)
			if (err == nil) != (perr == nil && len(tail) == 0) {
				t.Fatalf("%T: %v, of Unmarshal %v and %d octets left", whole, err, perr, len(tail))
			}
			if err != nil {
				continue
			}
			if d := cmp.Diff(plain, whole, cmpopts.EquateEmpty()); d != "" {
				t.Fatalf("-Unmarshal +Split\n%s", d)
			}
			rest, pos, item, err := s.Marshal(whole)
			if err != nil {
				t.Fatal(err)
			}
			if pos > 0 {
				item = append([]byte{}, item...)
			}
			if err := s.Unmarshal(rest, item, apart); err != nil || !cmp.Equal(whole, apart, cmpopts.EquateEmpty()) {
				t.Fatalf("%v\n%s", err, cmp.Diff(whole, apart))
			}
		}
	})
}

func TestFindAllocates(t *testing.T) {
	s := splitOf(t, &record{})
	b, _ := xdrreflect.Marshal(&record{Name: "name"})
	if n := testing.AllocsPerRun(100, func() {
		if _, ok := s.Find(b); !ok {
			t.Fatal("not found")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
