package transport_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// gated is a connection whose reader waits while the gate is shut.
type gated struct {
	net.Conn
	mu sync.Mutex
}

// shut lets nothing more in until the returned function is called.
func (g *gated) shut() (open func()) {
	g.mu.Lock()
	return sync.OnceFunc(g.mu.Unlock)
}

func (g *gated) Read(p []byte) (int, error) {
	g.mu.Lock()
	g.mu.Unlock() //nolint:staticcheck // an empty section: the gate is open
	return g.Conn.Read(p)
}

const (
	bulkProg  = 400201
	bulkLong  = 1 // returns a long item
	bulkShort = 2 // returns nothing
)

// short makes a call with a short reply; the first one grants credits.
func short(t *testing.T, c rpc.Caller) {
	t.Helper()
	var r rpc.Reply
	defer r.Release()
	if err := c.Do(t.Context(), &rpc.Call{Prog: bulkProg, Vers: 1, Proc: bulkShort}, &r); err != nil {
		t.Error(err)
	}
}

// TestShortReplyOvertakes: a reply of a few octets does not wait for all the long ones that are ready, which
// differ in whether they fit into one RDMA Write, and all arrive whole.
func TestShortReplyOvertakes(t *testing.T) {
	const calls, long = 16, 1<<20 + 12345
	item := make([]byte, long)
	for i := range item {
		item[i] = byte(i * 7 / 3)
	}
	binding := chunks.Table{{Prog: bulkProg, Vers: 1, Proc: bulkLong, Result: chunks.After()}}
	cfg := &transport.Config{Binding: binding}
	s := &transport.Server{Config: cfg, Handler: rpc.HandlerFunc(func(_ context.Context, req *rpc.Request, resp *rpc.Response) {
		if req.Proc == bulkLong {
			resp.Results = xdr.AppendUint32(resp.Results, long)
			resp.AppendItem(item)
		}
	})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.(*net.TCPConn).SetReadBuffer(64 << 10) // less is hidden in the kernel
	g := &gated{Conn: conn}
	c, err := transport.NewClient(t.Context(), g, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { c.Close(); s.Close(); <-served }()
	replied := func(n uint64) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); s.Stats().Replies < n; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d replies, want %d", s.Stats().Replies, n)
			}
		}
	}

	short(t, c)
	open := g.shut()
	defer open()
	var arrived atomic.Int32
	var wg sync.WaitGroup
	for range calls {
		wg.Go(func() {
			var r rpc.Reply
			defer r.Release()
			sink := make([]byte, long)
			if err := c.Do(t.Context(), &rpc.Call{Prog: bulkProg, Vers: 1, Proc: bulkLong, Sink: sink, MaxResults: 8}, &r); err != nil {
				t.Error(err)
			}
			arrived.Add(1)
			if !r.Placed || string(sink) != string(item) {
				t.Error("the item is not whole")
			}
		})
	}
	replied(1 + calls)
	wg.Go(func() {
		short(t, c)
		if n := arrived.Load(); n > calls/2 {
			t.Errorf("%d of %d long replies came first", n, calls)
		}
	})
	replied(1 + calls + 1)
	open()
	wg.Wait()
}

// TestBulkCut: a connection that ends while long replies wait leaves nothing behind, whatever part of them was posted.
func TestBulkCut(t *testing.T) {
	const calls, long = 8, 3 << 20
	item := make([]byte, long)
	binding := chunks.Table{{Prog: bulkProg, Vers: 1, Proc: bulkLong, Result: chunks.After()}}
	cfg := &transport.Config{Binding: binding}
	s := &transport.Server{Config: cfg, Handler: rpc.HandlerFunc(func(_ context.Context, req *rpc.Request, resp *rpc.Response) {
		if req.Proc != bulkLong {
			return
		}
		resp.Results = xdr.AppendUint32(resp.Results, long)
		resp.AppendItem(item)
	})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	defer func() { s.Close(); <-served }()
	for range 5 {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		g := &gated{Conn: conn}
		c, err := transport.NewClient(t.Context(), g, cfg)
		if err != nil {
			t.Fatal(err)
		}
		short(t, c)
		before := s.Stats().Replies
		open := g.shut()
		var wg sync.WaitGroup
		for range calls {
			wg.Go(func() {
				var r rpc.Reply
				if c.Do(t.Context(), &rpc.Call{Prog: bulkProg, Vers: 1, Proc: bulkLong, Sink: make([]byte, long), MaxResults: 8}, &r) == nil {
					t.Error("a reply came through the gate")
				}
			})
		}
		for end := time.Now().Add(20 * time.Second); s.Stats().Replies < before+calls && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		conn.Close()
		open()
		wg.Wait()
		c.Close()
	}
	for end := time.Now().Add(20 * time.Second); s.Stats().InFlight != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d calls are still in flight", s.Stats().InFlight)
		}
	}
}
