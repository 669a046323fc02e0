package transport

import (
	"context"
	"net"

	"github.com/stag-rdma/stag/credits"
	"github.com/stag-rdma/stag/internal/setting"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/internal/responder"
	"github.com/stag-rdma/stag/transport/rpc"
)

// backServed serves the backward calls on a client's connection. Handlers do not run in the goroutine
// that reads, because that goroutine waits for its own reply.
type backServed rdmaServed

var _ responder.App = (*backServed)(nil)

// takeBackward prepares a client's connection for backward calls, if it is configured for them: their
// receives are additional to those for replies (RFC 8167 Section 4.3.1), and the server is told.
func (c *Client) takeBackward(conn net.Conn, ec *rdmap.Config) error {
	s, err := c.cfg.backwardServer()
	if s == nil || err != nil {
		return err
	}
	n := c.cfg.Backward.Credits
	cfg := *s.resp
	cfg.Credits = n
	served := &backServed{s: s, addr: conn.RemoteAddr()}
	served.ctx, served.cancel = context.WithCancel(s.ctx)
	c.back = responder.New(&cfg, &s.ctr, s.gate, served.addr, served)
	served.rc = c.back
	if c.back.Peer, err = s.gate.Enter(served.addr, nil); err != nil {
		return err
	}
	if err := c.back.TakeBackward(); err != nil {
		return err
	}
	ec.Receives.Count += n + credits.Slack
	ec.Startup.PrivateData = rpcrdma.BackwardData{Credits: uint16(n)}.Append(ec.Startup.PrivateData)
	return nil
}

// backwardServer returns the server of a client's backward direction, nil if there is none.
func (c *Config) backwardServer() (*Server, error) {
	switch {
	case c.Backward.Credits == 0 && c.Backward.Handler == nil:
		return nil, nil
	case c.Backward.Credits == 0 || c.Backward.Handler == nil:
		return nil, ofTransport(setting.Error("a client needs both Backward.Credits and Backward.Handler, or neither"))
	}
	own := *c
	own.Limits.Allow, own.CreditPool, own.TLS = nil, nil, TLS{} // for servers only: here we have chosen the only peer
	s := &Server{Handler: c.Backward.Handler, Config: &own}
	return s, s.init()
}

// serveBackward starts a goroutine that reads backward calls.
//
// Choice: a client with a backward direction has such a goroutine, as a server has. Without it, a call
// that comes just after a reply would wait up to 80 ms until somebody looks at the idle connection
// (package rdmap, "Who reads the socket").
func (c *Client) serveBackward() {
	if c.back != nil {
		go func() { _ = c.conn.Serve() }() // HandleClose gets the error
	}
}

// Lazy: backward calls have no chunks.
func (b *backServed) Lazy(*rpc.Request) bool { return false }

// Dispatch runs a call in a goroutine.
func (b *backServed) Dispatch(x *responder.Call, inline bool) {
	if inline {
		x.Own()
	}
	x.Resp.Reset()
	x.SetRequest()
	x.Traits = rpc.Describe(b.s.Handler, &x.Req)
	go (*rdmaServed)(b).serve(x)
}

// Ended cancels the handlers.
func (b *backServed) Ended(error) { b.cancel() }
