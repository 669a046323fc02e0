package transport_test

import (
	"bytes"
	"context"
	"net"
	"sync"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
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

// narrow accepts connections with little room in the kernel for what they send.
type narrow struct{ net.Listener }

func (l narrow) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(64 << 10)
	}
	return c, err
}

// bulkServer serves long items of this many octets; connect makes a client of it whose reader the test may shut out.
func bulkServer(t *testing.T, item []byte) (s *transport.Server, connect func() (*gated, *transport.Client)) {
	t.Helper()
	cfg := &transport.Config{Binding: chunks.Table{{Prog: bulkProg, Vers: 1, Proc: bulkLong, Result: chunks.After()}}}
	how := func(s *transport.Server, l net.Listener) error { return overRDMA(s, narrow{l}) }
	s, addr := served(t, how, rpc.HandlerFunc(func(_ context.Context, req *rpc.Request, resp *rpc.Response) {
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
		// A reply is counted before it is posted. No long one can be sent whole, so a short one whose call is over was posted.
		waitFor(t, "the replies", func() bool { st := s.Stats(); return st.Replies >= n && st.InFlight == calls })
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

// muted is a connection whose writer waits while mu is locked.
type muted struct {
	net.Conn
	mu sync.Mutex
}

func (m *muted) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.Conn.Write(p)
}

// TestPullsFollow: the chunks of a few long calls are asked for at a time, and those of short ones at once. When they
// come, those of the others are asked for, and all arrive whole, in however many segments they are offered; when they
// never come, nothing is left behind.
func TestPullsFollow(t *testing.T) {
	s, addr := startServer(t, newEcho(), nil)
	for _, tt := range []struct {
		name         string
		calls, long  int
		cuts         int // of each into segments
		first, reads int // Reads that are asked for at once, and in all
		cut          bool
	}{
		{"short", 6, 9000, 1, 6, 6, false},
		{"long", 8, 1 << 20, 1, 2, 16, false},
		{"just longer than one Read", 8, 512<<10 + 4, 1, 2, 16, false},
		{"segments", 6, 900 << 10, 5, 5, 30, false},
		{"the connection ends", 8, 1 << 20, 1, 2, 16, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conn := &muted{Conn: must(net.Dial("tcp", addr))(t)}
			p := rawOver(t, conn, rawConfig(plainPrivate(), 4096))
			data := filled(tt.long)
			var b []verbs.WR
			for xid := range uint32(tt.calls) {
				var list []chunks.ReadSegment
				for i := range tt.cuts {
					part := data[tt.long/tt.cuts*i:]
					if i < tt.cuts-1 {
						part = part[:tt.long/tt.cuts]
					}
					list = append(list, chunks.ReadSegment{Position: 44, Segment: p.offer(part, region.RemoteRead)})
				}
				h := header(rpcrdma.Header{XID: xid, Lists: chunks.Lists{Read: list}})
				b = append(b, verbs.WR{Op: verbs.OpSend, Head: append(h, rpcCall(xid, procSum, words(uint32(tt.long))...)...)})
			}
			null := append(header(rpcrdma.Header{XID: 99}), rpcCall(99, procNull)...)
			noErr(t, p.conn.Post(append(b, verbs.WR{Op: verbs.OpSend, Head: null})))
			conn.mu.Lock()
			// Its answer shows that the server has seen all calls: what it asks for at once was asked for before.
			if h, _ := p.recv(); h.XID != 99 {
				t.Fatalf("the first answer is to %d", h.XID)
			}
			if n := p.conn.Stats().ReadsIn; n != uint64(tt.first) {
				t.Errorf("%d Reads at once, want %d", n, tt.first)
			}
			if tt.cut {
				conn.Conn.Close()
				conn.mu.Unlock()
				return
			}
			conn.mu.Unlock()
			left := map[uint32]bool{}
			for xid := range uint32(tt.calls) {
				left[xid] = true
			}
			for len(left) > 0 { // calls owe each other no order
				h, reply := p.recv()
				if want := rpcReply(h.XID, words(uint32(tt.long), sum(data))...); !left[h.XID] || !bytes.Equal(reply, want) {
					t.Fatalf("answer %+v, %x, want %x", h, reply, want)
				}
				delete(left, h.XID)
			}
			if n := p.conn.Stats().ReadsIn; n != uint64(tt.reads) {
				t.Errorf("%d Reads, want %d", n, tt.reads)
			}
		})
	}
	waitFor(t, "no call is in flight", func() bool { return s.Stats().InFlight == 0 && s.Stats().Pulls == 0 })
}
