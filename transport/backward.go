package transport

import (
	"net"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/internal/requester"
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
	cfg := rc.cfg.requester()
	cfg.Credits = rc.cfg.Backward.Credits
	c := requester.New(cfg, addr, rc.ctr.OfBackward(), rc)
	c.Attach(rc.conn)
	// A backward call has the size limit of a forward reply, and vice versa (RFC 8167 Section 4).
	if err := c.Start(rc.resp.Config().SendSize, rc.recvSize); err != nil {
		return nil, err
	}
	rc.caller = c
	return c, nil
}

// ExpectReply implements Receives.
func (rc *respConn) ExpectReply() {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	rc.resp.Credits().Expect(1)
	rc.postReceives()
}

// UnexpectReply implements Receives.
func (rc *respConn) UnexpectReply() {
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
	c.Receive(conn, m)
}
