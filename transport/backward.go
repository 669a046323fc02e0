package transport

import (
	"math/rand/v2"
	"net"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/rpc"
)

// offerBackward switches the direction on for a client with these private data.
func (rc *respConn) offerBackward(private []byte) {
	if rc.cfg.Backward.Credits == 0 {
		return
	}
	rc.backward = rpc.NewBackward(rc.backwardCaller)
	if _, ok := rpcrdma.ParseBackwardData(private); ok {
		rc.backward.Enable()
	}
}

// backwardCaller makes the requester of the backward direction at its first use.
func (rc *respConn) backwardCaller() (rpc.Caller, error) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	if rc.caller != nil {
		return rc.caller, nil
	}
	addr := rc.conn.RemoteAddr().String()
	if rc.gone {
		return nil, rpc.AsOpError(rpc.OpCall, addr, net.ErrClosed)
	}
	cfg := *rc.cfg
	cfg.Credits = cfg.Backward.Credits
	c := &Client{
		cfg: &cfg, conn: rc.conn, addr: addr, ctr: rc.ctr.OfBackward(), lent: rc,
		xid: rand.Uint32(), over: make(chan struct{}), recvSize: rc.recvSize,
	}
	// A backward call has the size limit of a forward reply, and vice versa (RFC 8167 Section 4).
	c.req = rpcrdma.NewRequester(rpcrdma.RequesterConfig{
		Credits: uint32(cfg.Credits), SendSize: rc.resp.Config().SendSize, RecvSize: rc.recvSize,
		Binding: cfg.Binding, Limits: cfg.limits(), NoChunks: true, Bidirectional: true,
	})
	rc.caller = c
	return c, nil
}

// expectReply posts the receive for the reply to a call that is about to be sent (RFC
// 8167 Section 4.3.2). A nil rc is a client's own connection, which has posted all receives.
func (rc *respConn) expectReply() {
	if rc == nil {
		return
	}
	rc.mu.Lock()
	defer rc.mu.Unlock()
	rc.resp.Credits().Expect(1)
	rc.postReceives()
}

// unexpectReply undoes expectReply for a call that was not sent.
func (rc *respConn) unexpectReply() {
	if rc == nil {
		return
	}
	rc.mu.Lock()
	defer rc.mu.Unlock()
	rc.resp.Credits().Unexpect(1)
}

// replied handles a reply to a backward call, or one that nobody expects.
func (rc *respConn) replied(conn *rdmap.Conn, m *verbs.Message) {
	rc.mu.Lock()
	rc.resp.Credits().ReceivedOther()
	rc.postReceives()
	c := rc.caller
	rc.mu.Unlock()
	if c == nil {
		rc.ctr.Dropped.Add(1)
		return
	}
	c.received(conn, m)
}
