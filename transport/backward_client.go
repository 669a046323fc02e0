package transport

import (
	"context"
	"fmt"
	"net"

	"github.com/stag-rdma/stag/credits"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rpcrdma"
)

// backServed serves the backward calls of a client's connection. No handler runs in the
// goroutine that reads: that is one which waits for a reply of its own.
type backServed rdmaServed

var _ application = (*backServed)(nil)

// takeBackward prepares a client's connection for backward calls, if it is to have any:
// the receives for them come on top of those for replies (RFC 8167 Section 4.3.1), and the
// server is told.
func (c *Client) takeBackward(conn net.Conn, ec *rdmap.Config) error {
	s, err := c.cfg.backwardServer()
	if s == nil || err != nil {
		return err
	}
	n := c.cfg.BackwardCredits
	cfg := *s.cfg
	cfg.Credits = n
	served := &backServed{s: s, addr: conn.RemoteAddr()}
	served.ctx, served.cancel = context.WithCancel(s.ctx)
	c.back = newRespConn(&cfg, &s.ctr, &s.budget, served)
	served.rc = c.back
	if c.back.client, err = s.door.enter(served.addr); err != nil {
		return err
	}
	c.back.resp = rpcrdma.NewResponder(rpcrdma.ResponderConfig{
		Credits: uint32(n), Limits: cfg.limits(), NoChunks: true, Bidirectional: true,
	})
	ec.Recvs += n + credits.Slack
	c.back.resp.Credits().Posted(n + credits.Slack)
	ec.PrivateData = rpcrdma.BackwardData{Credits: uint16(n)}.Append(ec.PrivateData)
	return nil
}

// backwardServer returns the server behind a client's backward direction, nil for none.
func (c *Config) backwardServer() (*Server, error) {
	switch {
	case c.BackwardCredits == 0 && c.BackwardHandler == nil:
		return nil, nil
	case c.BackwardCredits == 0 || c.BackwardHandler == nil:
		return nil, fmt.Errorf("%w: a client needs BackwardCredits and BackwardHandler both, or neither", ErrConfig)
	}
	own := *c
	own.Allow, own.CreditPool = nil, nil // those of servers: here the peer is the only one, and chosen
	s := &Server{Handler: c.BackwardHandler, Config: &own}
	return s, s.init()
}

// attach says which connection it is. A nil rc has none of this.
func (rc *respConn) attach(conn *rdmap.Conn) {
	if rc != nil {
		rc.conn = conn
	}
}

// thresholds brings the sizes of the forward direction into force: a reply has that of a
// call (RFC 8167 Section 4).
func (rc *respConn) thresholds(send int) {
	if rc == nil {
		return
	}
	rc.mu.Lock()
	defer rc.mu.Unlock()
	rc.resp.Configure(func(c *rpcrdma.ResponderConfig) { c.SendSize = send })
}

// serveBackward begins to read for what comes unasked.
//
// Choice: a client with a backward direction has a goroutine for that, as a server has.
// Without it a call that comes just after a reply would wait up to 80 ms for somebody who
// looks at a connection where nobody waits (package rdmap, "Who reads the socket").
func (c *Client) serveBackward() {
	if c.back != nil {
		go func() { _ = c.conn.Serve() }() // why it ended is for HandleClose
	}
}

// dispatch runs a call in a goroutine.
func (b *backServed) dispatch(x *exchange, inline bool) {
	if inline {
		x.own()
	}
	x.resp.reset(&shared)
	x.setRequest(b.addr)
	go (*rdmaServed)(b).serve(x)
}

// ended cancels the handlers.
func (b *backServed) ended(error) { b.cancel() }
