package rpcrdma_test

import (
	"fmt"

	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// A client with both directions asks for each Send which of its machines it is for.
func ExampleForRequester() {
	h := rpcrdma.Header{XID: 7, Vers: rpcrdma.Version, Credit: 1}
	call := xdr.AppendCall(h.Append(nil), &xdr.CallHeader{XID: 7, RPCVers: 2, Prog: 0x40000000, Vers: 1})
	reply := xdr.AppendReply(h.Append(nil), &xdr.ReplyHeader{XID: 7})
	fmt.Println(rpcrdma.ForRequester(call, true), rpcrdma.ForRequester(reply, true))
	// Output: false true
}

// What a client that takes 16 backward calls at once says when it connects.
func ExampleBackwardData() {
	b := rpcrdma.PrivateData{SendSize: 4096, RecvSize: 4096}.Append(nil)
	b = rpcrdma.BackwardData{Credits: 16}.Append(b)
	d, ok := rpcrdma.ParseBackwardData(b)
	fmt.Println(d.Credits, ok)
	// Output: 16 true
}
