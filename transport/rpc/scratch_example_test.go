package rpc_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// A handler that fills its memory itself, and appends only what it has filled.
func ExampleResponse_Scratch() {
	file := strings.NewReader("a short file")
	h := rpc.HandlerFunc(func(_ context.Context, _ *rpc.Request, resp *rpc.Response) {
		b := resp.Scratch(4096)
		n, _ := file.Read(b)
		resp.AppendItem(b[:n])
	})
	call := xdr.AppendCall(nil, &xdr.CallHeader{XID: 1, RPCVers: 2, Prog: 400100, Vers: 1, Proc: 1})
	reply, _ := rpc.ServeMessage(context.Background(), h, nil, call, nil)
	fmt.Printf("%s\n", reply[len(reply)-12:])
	// Output: a short file
}
