package xdrreflect_test

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/stag-rdma/stag/xdr"
	"github.com/stag-rdma/stag/xdr/xdrreflect"
)

// export is an entry of the linked list that MOUNT's EXPORT returns.
type export struct {
	Dir  string
	Next *export `xdr:"optional"`
}

func Example() {
	list := export{Dir: "/a", Next: &export{Dir: "/home"}}
	b, err := xdrreflect.Marshal(&list)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%x\n", b)

	var got export
	rest, err := xdrreflect.Unmarshal(b, &got)
	fmt.Println(got.Dir, got.Next.Dir, len(rest), err)
	// Output:
	// 000000022f61000000000001000000052f686f6d6500000000000000
	// /a /home 0 <nil>
}

func ExampleMarshal() {
	type result struct {
		Status uint32 `xdr:"union"`
		Handle []byte `xdr:"unioncase=0"`
	}
	ok, _ := xdrreflect.Marshal(result{Status: 0, Handle: []byte{1, 2, 3, 4}})
	failed, _ := xdrreflect.Marshal(result{Status: 13})
	fmt.Printf("%x\n%x\n", ok, failed)

	_, err := xdrreflect.Marshal(map[string]int{})
	fmt.Println(errors.Is(err, xdrreflect.ErrType))
	// Output:
	// 000000000000000401020304
	// 0000000d
	// true
}

func ExampleUnmarshal() {
	var list []uint64
	_, err := xdrreflect.Unmarshal([]byte{0x3f, 0xff, 0xff, 0xff}, &list) // 8 GiB, it says
	fmt.Println(err)
	fmt.Println(errors.Is(err, xdr.ErrRange), list == nil)
	// Output:
	// xdr: []uint64 at octet 0: value out of range
	// true true
}

func ExampleLimits_Unmarshal() {
	lim := xdrreflect.Limits{MaxOctets: 8}
	var s string
	_, err := lim.Unmarshal(xdr.AppendString(nil, "too long"), &s)
	fmt.Println(errors.Is(err, xdr.ErrRange))
	rest, err := lim.Unmarshal(xdr.AppendString(nil, "fits"), &s)
	fmt.Println(s, len(rest), err)
	// Output:
	// true
	// fits 0 <nil>
}

func ExampleLimits_Marshal() {
	list := &export{Dir: "/a"}
	list.Next = list // never ends
	_, err := xdrreflect.Limits{MaxDepth: 100}.Marshal(list)
	fmt.Println(errors.Is(err, xdr.ErrRange))
	// Output: true
}

func ExampleSplitOf() {
	type put struct {
		Key   string
		Value []byte `xdr:"ddp"`
	}
	s, err := xdrreflect.SplitOf(reflect.TypeFor[put]())
	if err != nil {
		panic(err)
	}
	b, pos, value, _ := s.Marshal(&put{"key", []byte("value")})
	fmt.Printf("%x, %d octets belong at %d\n", b, len(value), pos)

	var got put
	err = s.Unmarshal(b, value, &got)
	fmt.Printf("%s %s %v\n", got.Key, got.Value, err)
	// Output:
	// 000000036b65790000000005, 5 octets belong at 12
	// key value <nil>
}
