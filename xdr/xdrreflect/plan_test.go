package xdrreflect_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/stag-rdma/stag/xdr"
	"github.com/stag-rdma/stag/xdr/xdrreflect"
)

type (
	octet   byte
	endless struct{ Next *endless }
	pingT   struct{ P [2]pongT }
	pongT   struct{ Q *pingT }
	tree    struct{ Kids []tree }
	armed   struct {
		Kind int32  `xdr:"union"`
		Next *armed `xdr:"unioncase=1"`
	}
)

func TestTypesRefused(t *testing.T) {
	for _, v := range []any{
		map[uint32]uint32{},
		[]any{},
		struct{ C chan int }{},
		struct{ F func() }{},
		complex64(0),
		uintptr(0),
		time.Time{},
		struct{ T *time.Time }{},
		[]octet{},
		[4]octet{},
		endless{},
		pingT{},
		[]struct{}{},
		[][0]uint32{},
		[]struct{ x int }{},
		[1 << 25]struct{}{},
		struct {
			A uint32 `xdr:"optional"`
		}{},
		struct {
			A *uint32 `xdr:"optional,unioncase=1"`
		}{},
		struct {
			A uint64 `xdr:"union"`
		}{},
		struct {
			A *uint32 `xdr:"union"`
		}{},
		struct {
			A uint32 `xdr:"unioncase=1"`
		}{},
		struct {
			K uint32 `xdr:"union"`
			A uint32 `xdr:"unioncase=01"`
		}{},
		struct {
			K uint32 `xdr:"union"`
			A uint32 `xdr:"unioncase=x"`
		}{},
		struct {
			A uint32 `xdr:"opaque=false"`
		}{},
		struct {
			A uint32 `xdr:"unknown"`
		}{},
		struct {
			A []byte `xdr:"optional" xdropaque:"false"`
		}{},
	} {
		if _, err := xdrreflect.Marshal(v); !errors.Is(err, xdrreflect.ErrType) {
			t.Errorf("%T: Marshal: %v, want ErrType", v, err)
		}
		if _, err := xdrreflect.Unmarshal(nil, reflect.New(reflect.TypeOf(v)).Interface()); !errors.Is(err, xdrreflect.ErrType) {
			t.Errorf("%T: Unmarshal: %v, want ErrType", v, err)
		}
	}
}

// believed reports whether the count of a list of one element like v is believed if n octets follow
// it.
func believed(v any, n int) bool {
	list := reflect.StructField{Name: "L", Type: reflect.SliceOf(reflect.TypeOf(v))}
	if list.Type.Elem().Kind() == reflect.Uint8 {
		list.Tag = `xdr:"opaque=false"`
	}
	_, err := xdrreflect.Limits{MaxOctets: 1 << 25}.Unmarshal(append([]byte{0, 0, 0, 1}, make([]byte, n)...), reflect.New(reflect.StructOf([]reflect.StructField{list})).Interface())
	e, ok := errors.AsType[*xdr.DecodeError](err)
	return !ok || e.Off > 0
}

// Least sizes bound the counts of lists; recursive types have them, too.
func TestLeastSizes(t *testing.T) {
	for _, tc := range []struct {
		v   any
		min int
	}{
		{uint8(0), 4},
		{uint64(0), 8},
		{"", 4},
		{[5]byte{}, 8},
		{[3]uint64{}, 24},
		{scalars{}, 64},
		{lists{}, 40},
		{union{}, 8},
		{wide{}, 4},
		{mnt{}, 12},
		{tree{}, 4},
		{armed{}, 4},
		{[1 << 26]byte{}, 1 << 24},
	} {
		if believed(tc.v, tc.min-1) || !believed(tc.v, tc.min) {
			t.Errorf("%T: the least size is not %d", tc.v, tc.min)
		}
	}
}
