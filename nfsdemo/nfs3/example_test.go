package nfs3_test

import (
	"fmt"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// A READ call's arguments, out and back.
func Example() {
	args := nfs3.ReadArgs{Handle: nfs3.FileHandle("root"), Offset: 4096, Count: 512}
	b := xdr.Encode(nil, &args)
	fmt.Printf("%x\n", b)

	d := xdr.NewDecoder(b)
	got := nfs3.ProcRead.NewArgs().(*nfs3.ReadArgs)
	fmt.Println(xdr.Decode(&d, got).Err(), string(got.Handle), got.Offset, got.Count)
	// Output:
	// 00000004726f6f74000000000000100000000200
	// <nil> root 4096 512
}
