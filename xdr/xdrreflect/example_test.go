package xdrreflect_test

import (
	"fmt"

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
