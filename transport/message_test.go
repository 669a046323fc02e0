package transport_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

func TestServeMessage(t *testing.T) {
	h := rpc.HandlerFunc(func(_ context.Context, req *rpc.Request, resp *rpc.Response) {
		if req.Proc == 9 {
			panic("proc 9")
		}
		data := resp.Buffer(5)
		copy(data, req.Args)
		resp.AppendItem(data)
		resp.Results = xdr.AppendUint32(resp.Results, 7)
	})
	call := func(proc uint32) []byte {
		b := xdr.AppendCall(nil, &xdr.CallHeader{XID: 1, RPCVers: 2, Prog: 3, Vers: 4, Proc: proc})
		return append(b, "hello..."...)
	}
	got, ok := rpc.ServeMessage(t.Context(), h, nil, call(1), nil)
	want := xdr.AppendReply(nil, &xdr.ReplyHeader{XID: 1})
	want = xdr.AppendUint32(xdr.AppendOpaque(want, []byte("hello")), 7)
	if !ok || !bytes.Equal(got, want) {
		t.Errorf("reply %x, want %x", got, want)
	}
	if out := printed(t, func() { got, ok = rpc.ServeMessage(t.Context(), h, nil, call(9), nil) }); !strings.Contains(out, "proc 9") {
		t.Errorf("a panic is printed as %q", out)
	}
	want = xdr.AppendReply(nil, &xdr.ReplyHeader{XID: 1, Accept: xdr.SystemErr})
	if !ok || !bytes.Equal(got, want) {
		t.Errorf("reply to a panic %x, want %x", got, want)
	}
	if _, ok := rpc.ServeMessage(t.Context(), h, nil, want, nil); ok {
		t.Error("a reply was answered")
	}
}
