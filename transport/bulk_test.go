package transport_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"

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

// bulkServer serves long items of this many octets; connect makes a client of it whose reader the test may shut out.
func bulkServer(t *testing.T, item []byte) (s *transport.Server, connect func() (*gated, *transport.Client)) {
	t.Helper()
	cfg := &transport.Config{Binding: chunks.Table{{Prog: bulkProg, Vers: 1, Proc: bulkLong, Result: chunks.After()}}}
	s, addr := served(t, overRDMA, rpc.HandlerFunc(func(_ context.Context, req *rpc.Request, resp *rpc.Response) {
		if req.Proc == bulkLong {
			resp.Results = xdr.AppendUint32(resp.Results, uint32(len(item)))
			resp.AppendItem(item)
		}
	}), cfg)
	return s, func() (*gated, *transport.Client) {
		conn := must(net.Dial("tcp", addr))(t)
		_ = conn.(*net.TCPConn).SetReadBuffer(64 << 10) // less is hidden in the kernel
		g := &gated{Conn: conn}
		c := must(transport.NewClient(t.Context(), g, cfg))(t)
		t.Cleanup(func() { c.Close() })
		mustDo(t, c, &rpc.Call{Prog: bulkProg, Vers: 1, Proc: bulkShort}) // brings credits
		return g, c
	}
}

// bulkCall asks for an item of n octets.
func bulkCall(n int) *rpc.Call {
	return &rpc.Call{Prog: bulkProg, Vers: 1, Proc: bulkLong, Sink: make([]byte, n), MaxResults: 8}
}

// TestShortReplyOvertakes: a reply of a few octets does not wait for all the long ones that are ready, which
// differ in whether they fit into one RDMA Write, and all arrive whole.
func TestShortReplyOvertakes(t *testing.T) {
	const calls, long = 16, 1<<20 + 12345
	item := make([]byte, long)
	for i := range item {
		item[i] = byte(i * 7 / 3)
	}
	s, connect := bulkServer(t, item)
	g, c := connect()
	replied := func(n uint64) {
		t.Helper()
		waitFor(t, "the replies", func() bool { return s.Stats().Replies >= n })
	}
	open := g.shut()
	defer open()
	var arrived atomic.Int32
	var wg sync.WaitGroup
	for range calls {
		wg.Go(func() {
			var r rpc.Reply
			defer r.Release()
			call := bulkCall(long)
			if err := c.Do(t.Context(), call, &r); err != nil {
				t.Error(err)
			}
			arrived.Add(1)
			if !r.Placed || string(call.Sink) != string(item) {
				t.Error("the item is not whole")
			}
		})
	}
	replied(1 + calls)
	wg.Go(func() {
		if err := try(t, c, &rpc.Call{Prog: bulkProg, Vers: 1, Proc: bulkShort}); err != nil {
			t.Error(err)
		}
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
	s, connect := bulkServer(t, make([]byte, long))
	for range 5 {
		g, c := connect()
		before := s.Stats().Replies
		open := g.shut()
		var wg sync.WaitGroup
		for range calls {
			wg.Go(func() {
				if try(t, c, bulkCall(long)) == nil {
					t.Error("a reply came through the gate")
				}
			})
		}
		waitFor(t, "the replies", func() bool { return s.Stats().Replies == before+calls })
		g.Close()
		open()
		wg.Wait()
	}
	waitFor(t, "no call is in flight", func() bool { return s.Stats().InFlight == 0 })
}
