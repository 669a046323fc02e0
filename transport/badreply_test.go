package transport_test

import (
	"errors"
	"net"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/internal/requester"
	"github.com/stag-rdma/stag/transport/rpc"
)

// TestBadReplies answers calls against the rules, once for each verdict of rpcrdma: the call fails or the Send is
// dropped, and the connection lives (RFC 8166 Section 4.5, RFC 8166 Section 6.1).
func TestBadReplies(t *testing.T) {
	// answer replies to one call that offers a sink and a reply chunk.
	type answer func(p *rawPeer, h *rpcrdma.Header)
	reply := func(h *rpcrdma.Header, change func(r *rpcrdma.Header), results ...byte) []byte {
		r := rpcrdma.Header{XID: h.XID, Lists: h.Lists}
		r.Read = nil
		for i := range r.Write {
			r.Write[i].Clear()
		}
		r.Reply.Clear()
		change(&r)
		return append(header(r), rpcReply(h.XID, results...)...)
	}
	nop := func(*rpcrdma.Header) {}
	tests := []struct {
		name   string
		answer answer
		want   rpc.Reason // 0: nothing wrong
	}{
		{"legal", func(p *rawPeer, h *rpcrdma.Header) { p.send(reply(h, nop, words(0)...)) }, 0},
		{"runt, unknown XID, call, other XID inside, then legal", func(p *rawPeer, h *rpcrdma.Header) {
			p.send(words(1, 2, 3))
			p.send(header(rpcrdma.Header{XID: h.XID + 77}), rpcReply(h.XID+77))
			p.send(header(rpcrdma.Header{XID: h.XID}), rpcCall(h.XID, procNull))
			p.send(header(rpcrdma.Header{XID: h.XID}), rpcReply(h.XID+1))
			p.send(words(h.XID, 1, 8, 4, 9))
			p.send(words(h.XID, 1, 8, 3))
			p.send(reply(h, nop, words(0)...))
		}, 0},
		{"ERR_CHUNK", func(p *rawPeer, h *rpcrdma.Header) {
			p.send(header(rpcrdma.Header{XID: h.XID, Type: rpcrdma.MsgTypeError, Err: rpcrdma.ErrChunk}))
		}, rpc.ReasonChunk},
		{"ERR_VERS", func(p *rawPeer, h *rpcrdma.Header) {
			p.send(header(rpcrdma.Header{XID: h.XID, Type: rpcrdma.MsgTypeError, Err: rpcrdma.ErrVers, Low: 2, High: 3}))
		}, rpc.ReasonVersion},
		{"other handle", func(p *rawPeer, h *rpcrdma.Header) {
			p.send(reply(h, func(r *rpcrdma.Header) { r.Write[0][0].Handle++ }, words(0)...))
		}, rpc.ReasonBadReply},
		{"RPC reply that does not decode", func(p *rawPeer, h *rpcrdma.Header) {
			p.send(header(rpcrdma.Header{XID: h.XID}), words(h.XID, 1, 9))
		}, rpc.ReasonBadReply},
	}
	next := make(chan answer, 1)
	c := rawServer(t, nil, nil, func(p *rawPeer, h *rpcrdma.Header, _ []byte) { (<-next)(p, h) })
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			next <- tt.answer
			call := wordCall(procFill, 5000)
			call.Sink, call.MaxResults = make([]byte, 5000), 10000
			err := try(t, c, call)
			e, _ := errors.AsType[*rpc.RPCError](err)
			switch {
			case tt.want == 0 && err != nil:
				t.Errorf("call failed: %v", err)
			case tt.want != 0 && (e == nil || e.Reason != tt.want):
				t.Errorf("error %v, want %v", err, tt.want)
			case e != nil:
				t.Log(err)
			}
			if n := c.Conn().Table().Live(); n != 0 {
				t.Errorf("%d live STags after the call", n)
			}
		})
	}
	if got := c.Stats().Dropped; got != 6 {
		t.Errorf("%d Sends dropped, want 6", got)
	}
}

// TestRemoteInvalidate answers with Send with Invalidate of the call's own memory,
// though the peer did not announce it, as Linux does; then of another call's, which
// ends the connection, whether it answers a call or none.
func TestRemoteInvalidate(t *testing.T) {
	for name, stray := range map[string]uint32{"the reply to another call": 0, "a reply to nobody": 77} {
		t.Run(name, func(t *testing.T) { testRemoteInvalidate(t, stray) })
	}
}

func testRemoteInvalidate(t *testing.T, stray uint32) {
	silent := rpcrdma.PrivateData{SendSize: 4096, RecvSize: 4096}.Append(nil)
	var other uint32
	c := rawServer(t, rawConfig(silent, 4096), nil, func(p *rawPeer, h *rpcrdma.Header, _ []byte) {
		stag, xid := uint32(h.Write[0][0].Handle), h.XID
		if other == 0 && h.Write[0][0].Length == 5001 {
			other = stag // no answer: the call stays
			return
		}
		if other != 0 {
			stag, xid = other, h.XID+stray
		}
		lists := h.Lists
		lists.Write[0].Clear()
		lists.HasReply = false
		b := append(header(rpcrdma.Header{XID: xid, Credit: 9, Lists: lists}), rpcReply(xid, words(0)...)...)
		if err := p.conn.SendInvalidate(testCtx(t), b, region.STag(stag)); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	sinkCall := func(n int) *rpc.Call {
		call := wordCall(procFill, uint32(n))
		call.Sink = make([]byte, n)
		return call
	}
	mustDo(t, c, sinkCall(5000))
	if c.Stats().Invalidated != 1 {
		t.Errorf("invalidations: %+v", c.Stats())
	}
	lost := make(chan error, 1)
	go func() { lost <- try(t, c, sinkCall(5001)) }()
	waitFor(t, "the call is out", func() bool { return c.Stats().Calls == 3 })
	if err := try(t, c, sinkCall(5002)); err != nil && !errors.Is(err, requester.ErrForeignSTag) {
		t.Errorf("the answered call: %v", err)
	}
	if err := <-lost; !errors.Is(err, requester.ErrForeignSTag) {
		t.Errorf("the call that lost its memory: %v", err)
	}
}
