package replies_test

import (
	"context"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/transport/internal/rendezvous"
	"github.com/stag-rdma/stag/transport/replies"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// offerLog calls OFFER (docs/replies.x) on a connection that ends with ctx, and returns where the log is to connect.
func offerLog(ctx context.Context, t *testing.T, p *replies.Pusher, client byte) rendezvous.Place {
	t.Helper()
	req := &rpc.Request{RemoteAddr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 700}, Network: "rdma"}
	req.Prog, req.Vers, req.Proc = replies.Program, replies.Version, 1
	req.Args = xdr.AppendBool(xdr.AppendUint32(append(make([]byte, 15), client), 1), true)
	var resp rpc.Response
	p.ServeRPC(ctx, req, &resp)
	d := xdr.NewDecoder(resp.Results)
	var at rendezvous.Place
	if st := d.Uint32(); st != 1 {
		t.Fatalf("status %d", st)
	}
	xdr.Decode(&d, &at)
	return at
}

// TestOffersLeaveNothing: a client that offers one log after the other on a connection makes the server keep one.
func TestOffersLeaveNothing(t *testing.T) {
	p := &replies.Pusher{Handler: rpc.HandlerFunc(func(context.Context, *rpc.Request, *rpc.Response) {}), Addr: ":1"}
	defer p.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	offerLog(ctx, t, p, 0)
	before := heap()
	for i := range 50_000 {
		offerLog(ctx, t, p, byte(i%2))
	}
	if after := heap(); after > before+2<<20 {
		t.Errorf("%d KiB more", (after-before)>>10)
	}
}

// TestOneConnectionPerLog: a client that connects its log again and again has one connection, so that the others have
// theirs.
func TestOneConnectionPerLog(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &replies.Pusher{Handler: rpc.HandlerFunc(func(context.Context, *rpc.Request, *rpc.Response) {}), Addr: l.Addr().String()}
	served := make(chan error, 1)
	go func() { served <- p.Serve(l) }()
	var last *rdmap.Conn
	for range 5 {
		at := offerLog(t.Context(), t, p, 1)
		cfg := &rdmap.Config{Startup: rdmap.Startup{Extensions: verbs.ExtCommit}}
		c, err := rendezvous.Dial(t.Context(), &at, "", nil, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Abort(nil)
		if last != nil {
			select {
			case <-last.Done():
			case <-c.Done(): // the server may come to the later one first
				c = last
			case <-time.After(5 * time.Second):
				t.Fatal("the connection before is still there")
			}
		}
		last = c
	}
	_ = p.Close()
	<-served
}
