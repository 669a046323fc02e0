package rpc

import (
	"context"
	"errors"
	"sync/atomic"
)

// Backward is the backward direction of one connection of a server (RFC 8167). It makes calls to
// the client. A handler gets it from Request.Backward and may keep it: it is the same for all
// calls of the connection. It is safe for concurrent use.
//
// Calls travel inline only, within the inline thresholds (RFC 8797) of the connection with the
// roles exchanged. They have their own credits and XIDs. Nothing is sent before the client is
// known to accept such calls: RFC 8167 Section 5.3, "an Upper-Layer Protocol MUST NOT perform
// backward-direction RPC operations until the peer server has indicated it is prepared to handle
// them". A client of this package says so when it connects by RDMA (Backward.Credits). For
// any other client the upper layer finds out, and calls [Backward.Enable].
type Backward struct {
	caller func() (Caller, error)
	ready  atomic.Bool // the client accepts calls
}

// NewBackward returns the backward direction of a connection. caller returns the Caller for its calls, or
// why there can be no more. It is for transports, and for tests of handlers that make such calls.
func NewBackward(caller func() (Caller, error)) *Backward { return &Backward{caller: caller} }

// Causes of an RPCError with ReasonBackward. Nothing was sent.
var (
	// ErrBackwardOff: the connection has no backward direction at this end.
	ErrBackwardOff = errors.New("transport: the backward direction is off (set Config.Backward.Credits on the server)")
	// ErrBackwardBusy: too many calls of this record-marked connection wait for replies of its client.
	ErrBackwardBusy = errors.New("transport: 1024 backward calls of this connection are waiting; make fewer at a time")
	// ErrBackwardPeer: the client has not said that it accepts backward calls.
	ErrBackwardPeer = errors.New("transport: the client has not enabled the backward direction (RFC 8167 Section 5.3; Backward.Enable says that it has)")
)

// Enable tells b that the client accepts backward calls. The upper layer learns that from the client:
// for NFSv4.1 by CREATE_SESSION or BIND_CONN_TO_SESSION with a back channel on this connection. If the
// client does not accept them, a call may end the connection.
func (b *Backward) Enable() {
	if b != nil {
		b.ready.Store(true)
	}
}

// Enabled reports whether the client is known to accept backward calls.
func (b *Backward) Enabled() bool { return b != nil && b.ready.Load() }

// Do makes a call to the client and waits for its reply, like [Caller.Do]. Calls are sent in the
// order in which they were made, at most Backward.Credits at a time, and at most as many as
// the client grants. The error is *RPCError with ReasonBackward, and nothing was sent, if the
// direction is not enabled at this end or at the client, or if the call does not fit inline. It
// is *OpError if the context or the connection ends. Item and Sink are never moved by RDMA. When
// the connection ends, the upper layer has to make its calls again on the client's next
// connection: only clients connect.
//
// A handler that calls Do waits for the client, so its Traits must say Blocks of the call that it serves
// (see [Handler]).
func (b *Backward) Do(ctx context.Context, call *Call, reply *Reply) error {
	caller, err := b.callable()
	if err != nil {
		reply.Release()
		if call.Free != nil {
			call.Free()
		}
		return err
	}
	return caller.Do(ctx, call, reply)
}

// callable returns the Caller for backward calls.
func (b *Backward) callable() (Caller, error) {
	switch {
	case b == nil: // so that handlers need not look
		return nil, &RPCError{Reason: ReasonBackward, Err: ErrBackwardOff}
	case !b.ready.Load():
		return nil, &RPCError{Reason: ReasonBackward, Err: ErrBackwardPeer}
	}
	return b.caller()
}
