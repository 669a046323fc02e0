package replies_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/stag-rdma/stag/transport/replies"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// TestOtherNetwork: the replies of a connection with the same address, but over TCP, are not those of the log.
func TestOtherNetwork(t *testing.T) {
	p := &replies.Pusher{}
	w := start(t, p)
	var from atomic.Value
	p.Handler = handlerFunc(func(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
		from.Store(req.RemoteAddr)
		w.prog.ServeRPC(ctx, req, resp)
	})
	mem := sim(1 << 16)
	created(t, mem)
	if seq, _, err := double(t.Context(), w.open(mem), 1); err != nil || seq == 0 {
		t.Fatal(seq, err)
	}
	for network, named := range map[string]bool{"rdma": true, "tcp": false} {
		req := rpc.Request{RemoteAddr: from.Load().(net.Addr), Network: network, Args: xdr.AppendUint32(nil, 2)}
		req.CallHeader = xdr.CallHeader{RPCVers: xdr.RPCVersion, Prog: program, Vers: 1, Proc: 1}
		var resp rpc.Response
		resp.Reset()
		p.ServeRPC(t.Context(), &req, &resp)
		if got := resp.Verf.Flavor != xdr.AuthNone; got != named {
			t.Errorf("over %s: a reply names a record: %v", network, got)
		}
	}
}

type handlerFunc func(ctx context.Context, req *rpc.Request, resp *rpc.Response)

func (f handlerFunc) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	f(ctx, req, resp)
}

// Describe is that of program1.
func (handlerFunc) Describe(req *rpc.Request) rpc.Traits {
	return rpc.Traits{Once: req.Proc != 2}
}
