package rpc_test

import (
	"context"
	"testing"

	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// TestServeMessageAllocates: a call without a connection costs no more memory than its handler takes, and nothing of one
// call is in the next.
func TestServeMessageAllocates(t *testing.T) {
	h := rpc.HandlerFunc(func(_ context.Context, req *rpc.Request, resp *rpc.Response) {
		if len(req.Args) > 0 {
			resp.AppendItem(req.Args)
			return
		}
		resp.Stat = xdr.ProcUnavail
	})
	long := xdr.AppendCall(nil, &xdr.CallHeader{XID: 1, RPCVers: 2, Prog: 9, Vers: 1, Proc: 1})
	long = append(long, "data"...)
	short := xdr.AppendCall(nil, &xdr.CallHeader{XID: 2, RPCVers: 2, Prog: 9, Vers: 1, Proc: 1})
	want := string(xdr.AppendReply(nil, &xdr.ReplyHeader{XID: 2, Accept: xdr.ProcUnavail}))
	out := make([]byte, 0, 256)
	serve := func() {
		out, _ = rpc.ServeMessage(t.Context(), h, nil, long, out[:0])
		out, _ = rpc.ServeMessage(t.Context(), h, nil, short, out[:0])
		if string(out) != want {
			t.Fatalf("% x", out)
		}
	}
	if n := testing.AllocsPerRun(200, serve); n > 2 { // under the race detector, pools forget some
		t.Errorf("%v allocations", n)
	}
}
