package responder

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/internal/admit"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/rpc"
	"go.uber.org/zap"
)

// app is a server that must not see a call.
type app struct{ t *testing.T }

func (a app) Dispatch(*Call, bool) { a.t.Error("executed") }

func (app) Lazy(*rpc.Request) bool { return false }

func (app) Ended(error) {}

// connect returns the responder of an established connection.
func connect(t *testing.T) *Responder {
	t.Helper()
	a, b := rdmaptest.Pipe()
	ctr := new(memory.Counters)
	g := admit.New(admit.Config{
		Limits: func(net.Addr) admit.Limits { return admit.Limits{Conns: 9, Limit: 1 << 20, Pulls: 9, Exposed: 9} },
		Conns:  9, Pulls: 9, Memory: 1 << 20, Credits: 4, InlineRecv: 4096, MaxPayload: 1 << 16,
		Pull: time.Second, Startup: time.Second, Logger: zap.NewNop(),
	}, ctr)
	rc := New(&Config{
		Credits: 4, MaxPayload: 1 << 16, Private: rpcrdma.PrivateData{SendSize: 4096, RecvSize: 4096}, Binding: chunks.NFS,
		CloseTimeout: time.Millisecond, Logger: zap.NewNop(),
	}, ctr, g, b.RemoteAddr(), app{t})
	var err error
	if rc.Peer, err = g.Enter(nil, rc.Mover()); err != nil {
		t.Fatal(err)
	}
	ec := &rdmap.Config{Receives: rdmap.Receives{Count: -1}}
	rc.Prepare(ec, nil)
	rc.Conn = rdmap.Server(b, ec)
	client := rdmap.Client(a, nil)
	begun := make(chan error, 1)
	go func() { begun <- client.Handshake(context.Background()) }()
	if err := rc.Conn.Handshake(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-begun; err != nil {
		t.Fatal(err)
	}
	go func() { _ = rc.Serve() }()
	t.Cleanup(func() {
		rc.Abort()
		client.Abort(nil)
	})
	return rc
}

// TestPinnedPull: a call is not executed on memory that the engine may still write to: its
// connection ends, and nobody gets the memory.
func TestPinnedPull(t *testing.T) {
	rc := connect(t)
	x := rc.NewCall()
	buf := memory.Shared.Get(64)
	x.buf, x.size = buf, 64
	sink, err := memory.Register(rc.Conn, rc.Ctr, buf.Data[:64], nil, region.ReadSink)
	if err != nil {
		t.Fatal(err)
	}
	x.sink = sink
	v, err := rc.Conn.Table().Lookup(sink.STag(), 0, 64, region.ReadSink)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Release()
	rc.pulled(x, false)
	if err := rc.Conn.Err(); !errors.Is(err, region.ErrPinned) {
		t.Errorf("the connection: %v", err)
	}
	if n := rc.Ctr.Calls.Load(); n != 0 {
		t.Errorf("%d calls executed", n)
	}
	next := memory.Shared.Get(64) // would be the one that was given back last
	defer next.Release()
	if next == buf {
		t.Error("memory that the engine uses was given back")
	}
}
