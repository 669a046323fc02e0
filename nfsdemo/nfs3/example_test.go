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

// The data of a WRITE travel apart from the head.
func ExampleWriteArgs_Head() {
	data := []byte("hello")
	args := nfs3.WriteArgs{Handle: nfs3.FileHandle("file"), Count: uint32(len(data)), Stable: nfs3.FileSync}
	head := xdr.AppendUint32(xdr.Encode(nil, args.Head()), args.Count)
	fmt.Println("the data belong at octet", len(head))
	// Output: the data belong at octet 28
}

// Procedures know their messages.
func ExampleProc() {
	p := nfs3.Proc(16)
	fmt.Printf("%v %T %T\n", p, p.NewArgs(), p.NewRes())
	// Output: READDIR *nfs3.ReadDirArgs *nfs3.ReadDirRes
}
