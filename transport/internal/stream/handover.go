package stream

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/transport/rpc"
)

// Enabling RDMA on a connection that has carried record-marked RPC (RFC 5666
// Section 3): "the resulting shift in framing must occur between distinct RPC messages,
// and in concert with the transport".

// ErrToRDMA ends the record-marked part of a connection: an MPA Request follows, or will follow.
var ErrToRDMA = errors.New("transport: RDMA is enabled on this connection")

// errAhead ends a connection on which the server has sent more than its replies before RDMA began.
var errAhead = errors.New("transport: octets that are no record before RDMA begins")

// Handover ends the record-marked part of the connection, and returns it. It waits for the replies to the outstanding
// calls, including cancelled ones; new calls fail. On an error the connection is closed, except when ctx ends during
// that wait.
func (c *Client) Handover(ctx context.Context) (net.Conn, error) {
	if err := c.quiesce(ctx); err != nil {
		return nil, rpc.AsOpError(rpc.OpDial, peeraddr.Of(c.conn), err)
	}
	c.over.Store(true)
	c.finish()
	if c.in.have > 0 { // a part of a mark: the server sends something after its last reply
		c.fail(errAhead)
	} else if err := c.conn.SetDeadline(time.Time{}); err != nil {
		c.fail(err)
	}
	c.mu.Lock()
	cause := c.err
	c.shifted = errors.Is(cause, ErrToRDMA)
	c.mu.Unlock()
	if !c.shifted {
		return nil, rpc.AsOpError(rpc.OpDial, peeraddr.Of(c.conn), cause)
	}
	c.ctr.Conns.Store(0)
	return c.conn, nil
}

// quiesce refuses new calls and waits until no reply is outstanding.
func (c *Client) quiesce(ctx context.Context) error {
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return c.err
	}
	c.err = ErrToRDMA
	settled := make(chan struct{})
	c.settled = settled
	if c.owed == 0 {
		close(settled)
	}
	c.mu.Unlock()
	select {
	case <-settled:
		return nil
	case <-c.done:
		return c.Err()
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if errors.Is(c.err, ErrToRDMA) {
		c.err, c.settled = nil, nil
	}
	return context.Cause(ctx)
}

// settle counts a reply that has come. The caller holds c.mu.
func (c *Client) settle() {
	if c.owed == 0 {
		return // nobody has asked for it
	}
	if c.owed--; c.owed == 0 && c.settled != nil {
		close(c.settled)
	}
}
