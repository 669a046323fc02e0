package transport_test

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// gated is a connection whose reader waits while the gate is shut.
type gated struct {
	net.Conn
	mu   sync.Mutex
	wake sync.Cond
	left int // octets that may come in; below zero: all
}

// let lets n more octets in, or all that come if n is below zero, which the gate does at first.
func (g *gated) let(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left = n
	g.wake.Broadcast()
}

func (g *gated) Read(p []byte) (int, error) {
	g.mu.Lock()
	for g.left == 0 {
		g.wake.Wait()
	}
	if g.left > 0 {
		p = p[:min(len(p), g.left)]
	}
	g.mu.Unlock()
	n, err := g.Conn.Read(p)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.left > 0 { // a gate that was shut meanwhile stays so
		g.left = max(0, g.left-n)
	}
	return n, err
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
		g := &gated{Conn: conn, left: -1}
		g.wake.L = &g.mu
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
	g.let(0)
	defer g.let(-1)
	var wg sync.WaitGroup
	for range calls {
		wg.Go(func() {
			var r rpc.Reply
			defer r.Release()
			call := bulkCall(long)
			if err := c.Do(t.Context(), call, &r); err != nil {
				t.Error(err)
			}
			if !r.Placed || string(call.Sink) != string(item) {
				t.Error("the item is not whole")
			}
		})
	}
	replied(1 + calls)
	short := make(chan error, 1)
	go func() {
		short <- tryCtx(testCtx(t), c, &rpc.Call{Prog: bulkProg, Vers: 1, Proc: bulkShort})
	}()
	replied(1 + calls + 1)
	g.let(calls / 2 * long) // octets, since goroutines may be woken in any order
	if err := <-short; err != nil {
		t.Errorf("not among the first half of %d long replies: %v", calls, err)
	}
	g.let(-1)
	wg.Wait()
}

// TestBulkCut: a connection that ends while long replies wait leaves nothing behind, whatever part of them was posted.
func TestBulkCut(t *testing.T) {
	const calls, long = 8, 3 << 20
	s, connect := bulkServer(t, make([]byte, long))
	for range 5 {
		g, c := connect()
		before := s.Stats().Replies
		g.let(0)
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
		g.let(-1)
		wg.Wait()
	}
	waitFor(t, "no call is in flight", func() bool { return s.Stats().InFlight == 0 })
}
