package stream

import (
	"context"
	"errors"
	"net"

	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/internal/reading"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/internal/requester"
	"github.com/stag-rdma/stag/transport/rpc"
)

// The backward direction over record-marked TCP: the same records in the other direction. RFC 5531 has
// no credits: the calling side makes at most Backward.Credits calls at a time, and the serving
// side ends a connection that brings far more.

// maxBackwardRecords limits the backward calls that a record-marked client has received and not
// answered; those beyond Backward.Credits wait.
const maxBackwardRecords = 1024

// errBackwardFlood ends a connection that brings more.
var errBackwardFlood = errors.New("transport: the server has too many backward calls in flight")

// ServeBackward serves the backward calls with h and what s has. stop ends its handlers. It comes before Start.
func (c *Client) ServeBackward(s *Service, h rpc.Handler, stop context.CancelFunc) (err error) {
	c.stop = stop
	c.back = &Conn{s: s, h: h, conn: c.conn, w: c.w, slots: newSlots(s.cfg.BackwardCredits), stopped: c.done, tls: StateOf(c.conn)}
	c.back.peer, err = s.gate.Enter(c.conn.RemoteAddr(), nil)
	return err
}

// called runs a backward call, which takes b.
func (c *Client) called(b *memory.Buffer, msg []byte) {
	if c.back.waiting.Add(1) > maxBackwardRecords {
		b.Release()
		c.fail(errBackwardFlood)
		return
	}
	c.back.wg.Add(1)
	go func() {
		defer c.back.waiting.Add(-1)
		if !c.back.slots.take(c.done) { // end releases it
			b.Release()
			c.back.wg.Done()
			return
		}
		x := &pendingCall{c: c.back, b: b, hold: c.back.peer.Ticket()}
		x.replyOctets(msg) // which notes who calls, and the traits
		if x.received(msg) {
			x.serve()
			return
		}
		x.end()
	}()
}

// ownsConn reports whether the connection belongs to c, which it does not in the backward direction of
// a server.
func (c *Client) ownsConn() bool { return c.permits == nil }

// addStats adds the served backward calls.
func (c *Conn) addStats(s *rpc.Stats) {
	if c != nil {
		s.BackwardCalls, s.BackwardReplies = c.s.ctr.Calls.Load(), c.s.ctr.Replies.Load()
	}
}

// backwardCaller makes the requester of the backward direction at its first use.
func (c *Conn) backwardCaller() (rpc.Caller, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.caller != nil {
		return c.caller, nil
	}
	if c.gone {
		return nil, rpc.AsOpError(rpc.OpCall, peeraddr.Of(c.conn), net.ErrClosed)
	}
	c.caller = newClient(c.conn, c.w, c.s.cfg, c.s.ctr.OfBackward())
	c.caller.permits = make(chan struct{}, c.s.cfg.BackwardCredits)
	c.caller.slots = &c.slots
	c.caller.role.Init((*inlet)(c.caller), nil, nil)
	c.caller.role.Serve() // by the reader of c, which delivers
	c.caller.role.Take(reading.Server)
	return c.caller, nil
}

// calling returns the requester of the backward direction, nil if it was not used.
func (c *Conn) calling() *Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.caller
}

// room waits until a backward call may be made over a record-marked connection.
func (c *Client) room(ctx context.Context) error {
	if c.permits == nil {
		return nil
	}
	if !c.slots.lend() {
		return rpc.ErrBackwardBusy
	}
	select {
	case c.permits <- struct{}{}:
		return nil
	case <-c.done:
		c.slots.back()
		return c.Err()
	case <-ctx.Done():
		c.slots.back()
		return context.Cause(ctx)
	}
}

// leaveRoom undoes room.
func (c *Client) leaveRoom() {
	if c.permits != nil {
		<-c.permits
		c.slots.back()
	}
}

// expects returns how many octets the reply to a call may have: what the call allows, or as many as an
// inline reply over RDMA if it does not say. It returns -1 if no call waits for it. c may be nil.
func (c *Client) expects(xid uint32) int {
	if c == nil {
		return -1
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.pending[xid]; w != nil {
		return w.most
	}
	return -1
}

// refuse ends the call, if there is one, whose reply is larger than it allows.
func (c *Client) refuse(xid uint32, why error) {
	if c == nil {
		return
	}
	c.mu.Lock()
	c.settle()
	w := c.pending[xid]
	if w != nil {
		delete(c.pending, xid)
		w.got = arrived{err: &rpc.RPCError{XID: xid, Reason: rpc.ReasonTooBig, Err: why}}
	}
	c.mu.Unlock()
	if w != nil {
		w.Complete(nil)
	}
}

// endBackward fails the backward calls without a reply, because nobody reads anymore.
func (c *Conn) endBackward(err error) {
	c.mu.Lock()
	c.gone = true
	caller := c.caller
	c.mu.Unlock()
	if caller == nil {
		return
	}
	if err == nil || requester.Ended(err) {
		err = net.ErrClosed
	}
	caller.end(err)
}

// end fails the calls in flight, and all later ones.
func (c *Client) end(err error) {
	c.mu.Lock()
	if c.err == nil {
		c.err = err
	}
	c.mu.Unlock()
	c.over.Store(true)
	c.role.Finish()
	close(c.done)
}
