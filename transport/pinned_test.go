package transport

import (
	"errors"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/internal/mem"
	"github.com/stag-rdma/stag/transport/internal/register"
)

// TestPinnedReply: a reply whose memory the engine does not let go of is none: the call
// fails with its connection, and nobody gets the memory (RFC 8166 Section 4.5.4).
func TestPinnedReply(t *testing.T) {
	pins := make(chan region.View, 1)
	conns := make(chan *Client, 1)
	cfg := testConfig()
	cfg.Timeouts.Close = time.Millisecond
	c := rawServer(t, rawConfig(plainPrivate(), 4096), cfg, func(p *rawPeer, h *rpcrdma.Header, _ []byte) {
		v, err := (<-conns).conn.Table().Lookup(register.STag(h.Write[0][0].Handle), 0, 1, region.RemoteWrite)
		if err != nil {
			t.Error(err)
		}
		pins <- v
		lists := h.Lists
		lists.Write[0].Clear()
		lists.HasReply = false
		p.send(header(rpcrdma.Header{XID: h.XID, Credit: 9, Lists: lists}), rpcReply(h.XID, words(0)...))
	})
	conns <- c
	call := wordCall(procFill, 5000)
	call.Sink = make([]byte, 5000)
	freed := false
	call.Free = func() { freed = true }
	if err := try(t, c, call); !errors.Is(err, region.ErrPinned) || !errors.Is(c.conn.Err(), region.ErrPinned) {
		t.Errorf("the call: %v; its connection: %v", err, c.conn.Err())
	}
	if freed {
		t.Error("memory that a peer may still write to was released")
	}
	v := <-pins
	v.Release()
}

// TestPinnedPull: a call is not executed on memory that the engine may still write to: its
// connection ends, and nobody gets the memory.
func TestPinnedPull(t *testing.T) {
	cfg := testConfig()
	cfg.Timeouts.Close = time.Millisecond
	s, addr := startServer(t, newEcho(), cfg)
	mustDo(t, dial(t, addr, nil), &nullCall)
	s.mu.Lock()
	var rc *respConn
	for c := range s.conns {
		rc = c.(*rdmaServed).rc
	}
	s.mu.Unlock()
	x := exchanges.get(rc)
	buf := mem.Shared.Get(64)
	x.buf, x.size = buf, 64
	sink, err := register.New(rc.conn, rc.ctr, buf.Data[:64], nil, region.ReadSink)
	if err != nil {
		t.Fatal(err)
	}
	x.sink = sink
	v, err := rc.conn.Table().Lookup(sink.STag(), 0, 64, region.ReadSink)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Release()
	rc.pulled(x, false)
	if err := rc.conn.Err(); !errors.Is(err, region.ErrPinned) {
		t.Errorf("the connection: %v", err)
	}
	if n := s.Stats().Calls; n != 1 {
		t.Errorf("%d calls executed", n)
	}
	next := mem.Shared.Get(64) // would be the one that was given back last
	defer next.Release()
	if next == buf {
		t.Error("memory that the engine uses was given back")
	}
}
