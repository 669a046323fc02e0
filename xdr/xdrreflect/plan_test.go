package xdrreflect

import (
	"errors"
	"reflect"
	"testing"
	"time"
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
		if _, err := planOf(reflect.TypeOf(v)); !errors.Is(err, ErrType) {
			t.Errorf("%T: %v, want ErrType", v, err)
		}
	}
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
		{[1 << 26]byte{}, maxMin},
	} {
		p, err := planOf(reflect.TypeOf(tc.v))
		if err != nil || p.min != tc.min {
			t.Errorf("%T: least size %d, %v, want %d", tc.v, p.min, err, tc.min)
		}
	}
}
