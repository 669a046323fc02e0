package transport

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync/atomic"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
)

// Backward is the backward direction of one connection of a server (RFC 8167). It makes calls to
// the client. A handler gets it from [Request.Backward] and may keep it: it is the same for all
// calls of the connection. It is safe for concurrent use.
//
// Calls travel inline only, within the inline thresholds (RFC 8797) of the connection with the
// roles exchanged. They have their own credits and XIDs. Nothing is sent before the client is
// known to accept such calls: RFC 8167 Section 5.3, "an Upper-Layer Protocol MUST NOT perform
// backward-direction RPC operations until the peer server has indicated it is prepared to handle
// them". A client of this package says so when it connects by RDMA (Config.BackwardCredits). For
// any other client the upper layer finds out, and calls [Backward.Enable].
type Backward struct {
	owner backwardOwner // nil: switched off
	ready atomic.Bool   // the client accepts calls
}

// backwardOwner is a server's connection of either kind.
type backwardOwner interface {
	// backwardCaller returns the Caller for backward calls, or why there can be no more.
	backwardCaller() (Caller, error)
}

var (
	// ErrBackwardOff: the connection has no backward direction at this end.
	ErrBackwardOff = errors.New("transport: the backward direction is off (set Config.BackwardCredits on the server)")
	// ErrBackwardBusy: too many calls of this record-marked connection wait for replies of its client.
	ErrBackwardBusy = errors.New("transport: 1024 backward calls of this connection are waiting; make fewer at a time")
	// ErrBackwardPeer: the client has not said that it accepts backward calls.
	ErrBackwardPeer = errors.New("transport: the client has not enabled the backward direction (RFC 8167 Section 5.3; Backward.Enable says that it has)")
)

// Backward returns the backward direction of the connection on which the call came, nil if there is
// none. [Backward.Do] of nil returns an error. It may be used after the call.
func (r *Request) Backward() *Backward { return r.backward }

// Enable tells b that the client accepts backward calls. The upper layer learns that from the client:
// for NFSv4.1 by CREATE_SESSION or BIND_CONN_TO_SESSION with a back channel on this connection. If the
// client does not accept them, a call may end the connection.
func (b *Backward) Enable() {
	if b != nil {
		b.ready.Store(true)
	}
}

// Enabled reports whether the client is known to accept backward calls.
func (b *Backward) Enabled() bool { return b != nil && b.owner != nil && b.ready.Load() }

// Do makes a call to the client and waits for its reply, like [Caller.Do]. Calls are sent in the
// order in which they were made, at most Config.BackwardCredits at a time, and at most as many as
// the client grants. The error is *RPCError with ReasonBackward, and nothing was sent, if the
// direction is not enabled at this end or at the client, or if the call does not fit inline. It
// is *OpError if the context or the connection ends. Item and Sink are never moved by RDMA. When
// the connection ends, the upper layer has to make its calls again on the client's next
// connection: only clients connect.
//
// A handler that calls Do waits for the client, so its MayBlock must name the call that it serves
// (see [Handler]).
func (b *Backward) Do(ctx context.Context, call *Call, reply *Reply) error {
	caller, err := b.callable()
	if err != nil {
		reply.Release()
		call.freed()
		return err
	}
	return caller.Do(ctx, call, reply)
}

// callable returns the Caller for backward calls.
func (b *Backward) callable() (Caller, error) {
	switch {
	case b == nil || b.owner == nil:
		return nil, &RPCError{Reason: ReasonBackward, Err: ErrBackwardOff}
	case !b.ready.Load():
		return nil, &RPCError{Reason: ReasonBackward, Err: ErrBackwardPeer}
	}
	return b.owner.backwardCaller()
}

// ifOn returns b, or nil if it is switched off.
func (b *Backward) ifOn() *Backward {
	if b.owner == nil {
		return nil
	}
	return b
}

// offerBackward switches the direction on for a client with these private data.
func (rc *respConn) offerBackward(private []byte) {
	if rc.cfg.BackwardCredits == 0 {
		return
	}
	rc.backward.owner = rc
	if _, ok := rpcrdma.ParseBackwardData(private); ok {
		rc.backward.Enable()
	}
}

// backwardCaller makes the requester of the backward direction at its first use.
func (rc *respConn) backwardCaller() (Caller, error) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	if rc.caller != nil {
		return rc.caller, nil
	}
	addr := rc.conn.RemoteAddr().String()
	if rc.gone {
		return nil, opErr(OpCall, addr, net.ErrClosed)
	}
	cfg := *rc.cfg
	cfg.Credits = cfg.BackwardCredits
	c := &Client{
		cfg: &cfg, conn: rc.conn, addr: addr, ctr: rc.ctr.ofBackward(), lent: rc,
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
		rc.ctr.dropped.Add(1)
		return
	}
	c.received(conn, m)
}
