package xdrreflect_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stag-rdma/stag/xdr"
	"github.com/stag-rdma/stag/xdr/xdrreflect"
)

var exporter = cmp.AllowUnexported(scalars{})

// Value, octets, and back; every prefix fails and leaves the target alone.
func TestRoundTrip(t *testing.T) {
	sc, li := goldenScalars(), goldenLists()
	for _, tc := range []struct {
		name string
		v    any // a pointer
		hex  string
	}{
		{"list", goldenMnt(), goldenMntHex},
		{"scalars", &sc, goldenScalarsHex},
		{"lists", &li, goldenListsHex},
		{"union, first arm", &union{Stat: 0, OK: []byte("ab"), Tail: 9}, "00000000 00000002 61620000 00000009"},
		{"union, second arm", &union{Stat: 5, Errno: 1, Tail: 9}, "00000005 0000000000000001 00000009"},
		{"union, no arm", &union{Stat: 7, Tail: 9}, "00000007 00000009"},
		{"bool union", &flagged{true, 3}, "00000001 0000000000000003"},
		{"bool union, no arm", &flagged{}, "00000000"},
		{"a number", new(uint64(3)), "0000000000000003"},
		{"pointers", new(new(new(int32(3)))), "00000003"},
		{"nothing", &struct{}{}, ""},
		{"nothing, often", &[1000]struct{}{}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := unhex(t, tc.hex)
			for _, v := range []any{tc.v, reflect.ValueOf(tc.v).Elem().Interface()} {
				b, err := xdrreflect.Marshal(v)
				if err != nil || !bytes.Equal(b, want) || cap(b) > len(b)+1024 {
					t.Fatalf("Marshal(%T) = %x, %v, want %x", v, b, err, want)
				}
			}
			got := reflect.New(reflect.TypeOf(tc.v).Elem())
			rest, err := xdrreflect.Unmarshal(append(bytes.Clone(want), "rest"...), got.Interface())
			if err != nil || string(rest) != "rest" {
				t.Fatalf("Unmarshal: %q, %v", rest, err)
			}
			if diff := cmp.Diff(tc.v, got.Interface(), exporter); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			for n := range want {
				if _, err := xdrreflect.Unmarshal(want[:n], got.Interface()); !errors.Is(err, xdr.ErrShort) {
					t.Errorf("the first %d octets: %v, want ErrShort", n, err)
				}
			}
			if diff := cmp.Diff(tc.v, got.Interface(), exporter); diff != "" {
				t.Errorf("a failed Unmarshal changed the target:\n%s", diff)
			}
		})
	}
}

// Nothing of an earlier value remains, and nothing aliases the input.
func TestUnmarshalReplaces(t *testing.T) {
	v := lists{S: "old", N: []uint32{1, 2, 3, 4}, O: make([]byte, 100), SS: make([]string, 9)}
	old := v.N
	b := unhex(t, goldenListsHex)
	if _, err := xdrreflect.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	clear(b)
	if diff := cmp.Diff(goldenLists(), v); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if old[0] != 1 {
		t.Error("memory of the earlier value was written")
	}
}

func TestUnmarshalErrors(t *testing.T) {
	for _, tc := range []struct {
		name string
		hex  string
		v    any
		want error
		text string
	}{
		{"bool 2", "00000002", new(bool), xdr.ErrRange, "xdr: bool at octet 0: value out of range"},
		{"int8 128", "00000080", new(int8), xdr.ErrRange, "xdr: int8 at octet 4: value out of range"},
		{"int16 -32769", "ffff7fff", new(int16), xdr.ErrRange, "xdr: int16 at octet 4: value out of range"},
		{"uint8 256", "00000100", new(uint8), xdr.ErrRange, "xdr: uint8 at octet 4: value out of range"},
		{"count 2^32-1", "ffffffff", new([]uint32), xdr.ErrRange, "xdr: []uint32 at octet 0: value out of range"},
		{"count above octets", "00000002 00000001", new([]uint32), xdr.ErrShort, "xdr: []uint32 at octet 0: not enough octets"},
		{"opaque count", "00100000", new([]byte), xdr.ErrShort, "xdr: []uint8 at octet 0: not enough octets"},
		{"in a field", "00000000 00000005", new(union), xdr.ErrShort, "xdr: union.OK at octet 4: not enough octets"},
		{"optional 2", "00000000 00000000 00000002", new(mnt), xdr.ErrRange, "xdr: mnt.Next at octet 8: value out of range"},
		{"deep in a list", "00000000 00000000 00000001 00000001", new(mnt), xdr.ErrShort, "xdr: mnt.Host at octet 12: not enough octets"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := xdrreflect.Unmarshal(unhex(t, tc.hex), tc.v)
			if !errors.Is(err, tc.want) || err.Error() != tc.text {
				t.Errorf("error %v, want %s", err, tc.text)
			}
			if _, ok := errors.AsType[*xdr.DecodeError](err); !ok {
				t.Errorf("error is a %T", err)
			}
			if !reflect.ValueOf(tc.v).Elem().IsZero() {
				t.Errorf("target became %+v", tc.v)
			}
		})
	}
}

func TestTargets(t *testing.T) {
	for _, v := range []any{nil, 5, "x", (*int32)(nil), union{}} {
		if _, err := xdrreflect.Unmarshal(make([]byte, 8), v); !errors.Is(err, xdrreflect.ErrType) {
			t.Errorf("Unmarshal into %T: %v, want ErrType", v, err)
		}
	}
	for _, v := range []any{nil, (*int32)(nil), &lists{}, struct{ P *mnt }{}} {
		if _, err := xdrreflect.Marshal(v); !errors.Is(err, xdrreflect.ErrNil) {
			t.Errorf("Marshal of %T: %v, want ErrNil", v, err)
		}
	}
	if _, err := xdrreflect.Marshal(map[int]int{}); !errors.Is(err, xdrreflect.ErrType) {
		t.Errorf("Marshal of a map: %v, want ErrType", err)
	}
}
