package transport

import (
	"context"
	"crypto/tls"
	"net"

	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/internal/setting"
	"github.com/stag-rdma/stag/transport/internal/stream"
	"github.com/stag-rdma/stag/transport/rpc"
)

// StreamClient is an RPC client over record-marked TCP (RFC 5531 Section 11), or
// any other byte stream. It is safe for concurrent use. On Linux and TCP callers read for themselves, and the item of a
// reply is in the Sink of its call if that has 16 KiB or more; else one goroutine reads.
type StreamClient struct {
	cfg *Config
	c   *stream.Client
}

// DialStream connects to an ONC RPC server over TCP. network is "tcp", "tcp4",
// "tcp6" or "unix". A server may end a connection that is silent from the start, as [Server.ServeShared] does: who connects
// long before the first call takes package redial.
func DialStream(ctx context.Context, network, addr string, cfg *Config) (*StreamClient, error) {
	c, err := cfg.fill()
	if err != nil {
		return nil, err
	}
	conn, err := dialNet(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return makeStream(ctx, conn, hostOf(addr), c)
}

// NewStreamClient takes conn and makes record-marked RPC calls on it. ctx limits only the handshake of Config.TLS, which
// needs a ServerName here.
func NewStreamClient(ctx context.Context, conn net.Conn, cfg *Config) (*StreamClient, error) {
	if err := given("connection", conn); err != nil {
		return nil, err
	}
	c, err := cfg.fill()
	if err != nil {
		return nil, err
	}
	return makeStream(ctx, conn, "", c)
}

// makeStream makes a client of conn, whose certificate must be for name.
func makeStream(ctx context.Context, conn net.Conn, name string, cfg *Config) (_ *StreamClient, err error) {
	if err := given("context", ctx); err != nil {
		_ = conn.Close() // nothing was sent on it
		return nil, err
	}
	if conn, err = cfg.TLS.client(ctx, conn, name, cfg.Startup.Timeout, alpnRecords); err != nil {
		return nil, err
	}
	c := stream.NewClient(conn, cfg.stream())
	s, err := cfg.backwardServer()
	if s != nil && err == nil {
		err = c.ServeBackward(s.stream, s.Handler, s.cancel)
	}
	if err != nil {
		_ = conn.Close() // nothing was sent on it
		return nil, err
	}
	c.Start()
	return &StreamClient{cfg: cfg, c: c}, nil
}

// Do implements [rpc.Caller].
func (c *StreamClient) Do(ctx context.Context, call *rpc.Call, reply *rpc.Reply) error {
	if inContext(call) {
		return c.cfg.GSS.protect(ctx, call, reply, c.cfg, c.c.Do)
	}
	return c.c.Do(ctx, call, reply)
}

// TLS returns what protects the connection, nil if nothing does. It must not be changed.
func (c *StreamClient) TLS() *tls.ConnectionState { return c.c.TLS() }

// Stats implements [rpc.Caller].
func (c *StreamClient) Stats() rpc.Stats { return c.c.Stats() }

// Close implements [rpc.Caller]. It returns when nobody reads any more.
func (c *StreamClient) Close() error { return c.c.Close() }

// Done returns a channel that is closed when the connection has ended.
func (c *StreamClient) Done() <-chan struct{} { return c.c.Done() }

// Err returns why the connection has ended, nil if it has not.
func (c *StreamClient) Err() error { return c.c.Err() }

// Abort ends the connection; calls in flight fail with err.
func (c *StreamClient) Abort(err error) { c.c.Abort(err) }

// Received returns a number that grows when something arrives: it makes c a redial.Conn.
func (c *StreamClient) Received() uint64 { return c.c.Received() }

// EnableRDMA turns the connection into an RPC-over-RDMA connection, which the returned client
// uses. The server must support that ([Server.ServeShared]). EnableRDMA waits for the replies to
// the outstanding calls, including cancelled ones; new calls fail. On an error the connection is
// closed, except when ctx ends during that wait. Once EnableRDMA has returned nil, the
// record-marked client must not be used anymore.
func (c *StreamClient) EnableRDMA(ctx context.Context) (*Client, error) {
	if c.cfg.TLS.Config != nil {
		return nil, ofTransport(setting.Error("TLS with EnableRDMA: Dial has TLS below MPA"))
	}
	conn, err := c.c.Handover(ctx)
	if err != nil {
		return nil, err
	}
	return newClient(ctx, conn, peeraddr.Of(conn), "", c.cfg)
}
