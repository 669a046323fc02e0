package transport_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/internal/memory"
)

// TestPinnedReply: a reply whose memory the engine does not let go of is none: the call
// fails with its connection, and nobody gets the memory (RFC 8166 Section 4.5.4).
func TestPinnedReply(t *testing.T) {
	pins := make(chan region.View, 1)
	conns := make(chan *transport.Client, 1)
	cfg := testConfig()
	cfg.Timeouts.Close = time.Millisecond
	c := rawServer(t, rawConfig(plainPrivate(), 4096), cfg, func(p *rawPeer, h *rpcrdma.Header, _ []byte) {
		v, err := (<-conns).Conn().Table().Lookup(memory.STag(h.Write[0][0].Handle), 0, 1, region.RemoteWrite)
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
	if err := try(t, c, call); !errors.Is(err, region.ErrPinned) || !errors.Is(c.Conn().Err(), region.ErrPinned) {
		t.Errorf("the call: %v; its connection: %v", err, c.Conn().Err())
	}
	if freed {
		t.Error("memory that a peer may still write to was released")
	}
	v := <-pins
	v.Release()
}
