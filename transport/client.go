package transport

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"

	"github.com/stag-rdma/stag/credits"
	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/internal/setting"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/internal/requester"
	"github.com/stag-rdma/stag/transport/internal/responder"
	"github.com/stag-rdma/stag/transport/internal/stream"
	"github.com/stag-rdma/stag/transport/rpc"
)

// Client is an RPC client over one RPC-over-RDMA connection (RFC 8166). It is safe for concurrent
// use. It has no goroutine of its own: callers that wait read the socket.
type Client struct {
	cfg  *Config
	conn *rdmap.Conn
	tls  *tls.ConnectionState // nil: the connection is in clear
	ctr  *memory.Counters
	req  *requester.Requester
	back *responder.Responder // takes the calls of the backward direction; nil: none
}

// Dial connects to an RPC-over-RDMA server by iWARP over TCP. network is "tcp", "tcp4" or "tcp6"; NFS
// uses port 20049 (RFC 8267 Section 7). ctx limits only the connection set-up. Errors are *OpError, and
// rpc.ErrConfig for cfg and network.
func Dial(ctx context.Context, network, addr string, cfg *Config) (*Client, error) {
	c, err := cfg.fill()
	if err != nil {
		return nil, err
	}
	cl, err := dialOnce(ctx, network, addr, c)
	if c.Startup.Revision != 0 || !errors.Is(err, verbs.ErrOlderPeer) {
		return cl, err
	}
	plain := *c // cfg may serve other connections at the same time
	plain.Startup.Revision = 1
	if cl, again := dialOnce(ctx, network, addr, &plain); again == nil {
		return cl, nil
	}
	return nil, err // the server closes every connection
}

// dialOnce is Dial with one attempt.
func dialOnce(ctx context.Context, network, addr string, cfg *Config) (*Client, error) {
	conn, err := dialNet(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return newClient(ctx, conn, addr, hostOf(addr), cfg)
}

// dialNet connects over TCP only: MPA and record marks need a stream, and over datagrams they would wait
// for an answer to the first one.
func dialNet(ctx context.Context, network, addr string) (net.Conn, error) {
	switch network {
	case "tcp", "tcp4", "tcp6", "unix":
	default:
		return nil, ofTransport(setting.Error("network %q, want tcp, tcp4 or tcp6", network))
	}
	if err := given("context", ctx); err != nil {
		return nil, err
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	return conn, rpc.AsOpError(rpc.OpDial, addr, err)
}

// hostOf returns the host of an address, whose certificate TLS wants; "" for a path.
func hostOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return ""
	}
	return host
}

// NewClient takes conn and starts RPC-over-RDMA on it, as the MPA initiator. Config.TLS needs a ServerName here.
func NewClient(ctx context.Context, conn net.Conn, cfg *Config) (*Client, error) {
	if err := given("connection", conn); err != nil {
		return nil, err
	}
	c, err := cfg.fill()
	if err != nil {
		return nil, err
	}
	return newClient(ctx, conn, peeraddr.Of(conn), "", c)
}

// newClient runs the start-up, in TLS whose certificate must be for name, and applies what the peer has announced in it.
func newClient(ctx context.Context, conn net.Conn, addr, name string, cfg *Config) (_ *Client, err error) {
	if err := given("context", ctx); err != nil {
		_ = conn.Close() // nothing was sent on it
		return nil, err
	}
	if conn, err = cfg.TLS.client(ctx, conn, name, cfg.Startup.Timeout, alpnMPA); err != nil {
		return nil, err
	}
	cfg.fit(conn)
	c := &Client{cfg: cfg, tls: stream.StateOf(conn), ctr: new(memory.Counters)}
	c.req = requester.New(cfg.requester(), addr, c.ctr, nil)
	own := cfg.privateData()
	ec := cfg.engine(cfg.Credits + credits.Slack)
	ec.Handler = &clientUpcalls{c}
	ec.Startup.PrivateData = own.Append(nil)
	if err := c.takeBackward(conn, ec); err != nil {
		_ = conn.Close() // nothing was sent on it
		return nil, err
	}
	c.conn = rdmap.Client(conn, ec)
	c.req.Attach(c.conn)
	if c.back != nil {
		c.back.Conn = c.conn
	}
	if err := c.conn.Handshake(ctx); err != nil {
		return nil, rpc.AsOpError(rpc.OpDial, addr, err)
	}
	peer, told := rpcrdma.ParsePrivateData(c.conn.PeerPrivateData())
	send, recv := own.Inline(peer)
	if c.back != nil {
		c.back.Thresholds(send)
	}
	if err := c.req.Start(send, recv); err != nil {
		return nil, rpc.AsOpError(rpc.OpDial, addr, err)
	}
	c.serveBackward()
	if cfg.RFC5666 == nil || cfg.RFC5666.NoConfigCall {
		return c, nil
	}
	agreed := 0
	if told {
		agreed = send
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(cfg.Startup.Timeout, rdmap.DefaultReplyTimeout))
	defer cancel()
	if err := c.req.Configure(ctx, agreed); err != nil {
		c.conn.Abort(nil)
		return nil, rpc.AsOpError(rpc.OpDial, addr, err)
	}
	return c, nil
}

// Inline returns the sizes in octets, header included, of the largest Sends to the server and
// from it on this connection (RFC 8797 Section 4.2).
func (c *Client) Inline() (send, recv int) {
	return c.req.Inline()
}

// Do implements [rpc.Caller].
//
// Do may wait for a credit, first come, first served, and then waits for the reply. If ctx ends
// first, Do returns at once. The credit, the XID, Item and Sink then stay in use until the reply
// comes or the connection ends, because the server may still read and write the advertised
// memory. Call.Free tells when.
func (c *Client) Do(ctx context.Context, call *rpc.Call, reply *rpc.Reply) error {
	if inContext(call) {
		return c.cfg.GSS.protect(ctx, call, reply, c.cfg, c.req.Do)
	}
	return c.req.Do(ctx, call, reply)
}

// TLS returns what protects the connection, nil if nothing does. It must not be changed.
func (c *Client) TLS() *tls.ConnectionState { return c.tls }

// Conn returns the underlying RDMAP connection, for its state and statistics.
func (c *Client) Conn() *rdmap.Conn { return c.conn }

// Stats implements [rpc.Caller].
func (c *Client) Stats() rpc.Stats {
	s := c.req.Stats()
	if c.back != nil {
		s.BackwardCalls, s.BackwardReplies = c.back.Ctr.Calls.Load(), c.back.Ctr.Replies.Load()
	}
	return s
}

// Close implements [rpc.Caller]. It returns the first fatal error of the connection, or nil.
func (c *Client) Close() error {
	return c.req.Close()
}

// Done returns a channel that is closed when the connection has ended.
func (c *Client) Done() <-chan struct{} { return c.req.Over() }

// Err returns why the connection has ended, nil if it has not.
func (c *Client) Err() error { return c.conn.Err() }

// Abort ends the connection; calls in flight fail with err.
func (c *Client) Abort(err error) { c.conn.Abort(err) }

// Received returns a number that grows when something arrives: it makes c a redial.Conn.
func (c *Client) Received() uint64 { return c.conn.Stats().OctetsIn }

// clientUpcalls passes on what arrives on a client's connection, by its direction (RFC 8167).
type clientUpcalls struct{ c *Client }

var _ rdmap.Handler = (*clientUpcalls)(nil)

// HandleRecv takes a reply, or a backward call. It runs in whichever goroutine reads.
func (h *clientUpcalls) HandleRecv(conn *rdmap.Conn, m *verbs.Message) {
	c := h.c
	switch {
	case c.back != nil && !rpcrdma.ForRequester(m.Data, true):
		c.back.HandleRecv(conn, m)
	default:
		conn.PostRecv(1)
		c.req.Receive(conn, m)
	}
}

// HandleClose ends both directions.
func (h *clientUpcalls) HandleClose(conn *rdmap.Conn, err error) {
	h.c.req.Ended(err)
	if h.c.back != nil {
		h.c.back.HandleClose(conn, err)
	}
}

// responder returns the settings of a responder.
func (c *Config) responder() *responder.Config {
	r := &responder.Config{
		Credits: c.Credits, BackwardCredits: c.Backward.Credits, MaxPayload: c.MaxPayload, Private: c.privateData(), Binding: c.Binding,
		CardRecv: c.cardRecv, AnyCred: c.AnyCred, PreferReplyChunk: c.PreferReplyChunk,
		CloseTimeout: c.Timeouts.Close, Requester: c.requester(), Trace: c.Trace, Logger: c.Logger,
	}
	if p := c.RFC5666; p != nil {
		r.RFC5666 = &responder.RFC5666{Align: p.Align, PeerAlign: p.PeerAlign, DoneTimeout: p.DoneTimeout, MaxExposed: p.MaxExposed, ExposedMemory: p.ExposedMemory}
	}
	return r
}

// requester returns the settings of a requester.
func (c *Config) requester() requester.Config {
	return requester.Config{
		Credits: c.Credits, InlineSend: c.InlineSend, InlineRecv: c.InlineRecv, MaxPayload: c.MaxPayload,
		Bidirectional: c.Backward.Credits > 0, NoRemoteInvalidate: c.NoRemoteInvalidate, Binding: c.Binding,
		RFC5666: c.RFC5666 != nil, PeerAlign: c.rfc5666().PeerAlign, ConfigCred: c.rfc5666().ConfigCred,
		CallTimeout: c.Timeouts.Call, CloseTimeout: c.Timeouts.Close,
		Trace: c.Trace, Logger: c.Logger,
	}
}

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
	cfg.Credits = n // those of the backward direction are its own (RFC 8167 Section 4)
	served := &backServed{s: s, by: &s.all, addr: conn.RemoteAddr()}
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
	own.Limits.Allow, own.TLS = nil, TLS{} // for servers only: here we have chosen the only peer
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
	x.Traits = rpc.Describe(b.by.Handler, &x.Req)
	go (*rdmaServed)(b).serve(x)
}

// Ended cancels the handlers.
func (b *backServed) Ended(error) { b.cancel() }
