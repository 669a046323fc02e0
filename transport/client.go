package transport

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/credits"
	"github.com/stag-rdma/stag/internal/setting"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/internal/count"
	"github.com/stag-rdma/stag/transport/internal/fifo"
	"github.com/stag-rdma/stag/transport/rpc"
)

// Client is an RPC client over one RPC-over-RDMA connection (RFC 8166). It is safe for concurrent
// use. It has no goroutine of its own: callers that wait read the socket.
type Client struct {
	cfg  *Config
	conn *rdmap.Conn
	addr string
	ctr  *count.Counters
	back *respConn // takes the calls of the backward direction; nil: none
	lent *respConn // the server connection whose backward direction this is, and whose receives it uses; else nil

	recvSize int           // the reply threshold
	anyItem  bool          // opaques that no binding names may be reduced
	over     chan struct{} // closed when the connection is over and all calls know
	idle     sync.Pool     // of *outcall: one per client, because each has a channel

	mu     sync.Mutex
	req    *rpcrdma.Requester
	xid    uint32
	queue  fifo.Queue[outcall, *outcall] // calls that wait for a credit, first come, first served
	order  uint64                        // of the latest message received
	live   map[*outcall]struct{}         // calls with a deadline, for the tick
	err    error                         // why the connection is over
	ticked bool                          // the process-wide tick knows this client
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
	plain := *c
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
	return newClient(ctx, conn, addr, cfg)
}

// dialNet connects over TCP only: MPA and record marks need a stream, and over datagrams they would wait
// for an answer to the first one.
func dialNet(ctx context.Context, network, addr string) (net.Conn, error) {
	switch network {
	case "tcp", "tcp4", "tcp6", "unix":
	default:
		return nil, ofTransport(setting.Error("network %q, want tcp, tcp4 or tcp6", network))
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	return conn, rpc.AsOpError(rpc.OpDial, addr, err)
}

// NewClient takes conn and starts RPC-over-RDMA on it, as the MPA initiator.
func NewClient(ctx context.Context, conn net.Conn, cfg *Config) (*Client, error) {
	c, err := cfg.fill()
	if err != nil {
		return nil, err
	}
	return newClient(ctx, conn, addrOf(conn), c)
}

// newClient runs the start-up and applies what the peer has announced in it.
func newClient(ctx context.Context, conn net.Conn, addr string, cfg *Config) (*Client, error) {
	cfg.asClient()
	c := &Client{cfg: cfg, addr: addr, xid: rand.Uint32(), over: make(chan struct{}), ctr: new(count.Counters)}
	own := cfg.privateData()
	ec := cfg.engine(&clientConn{c}, cfg.Credits+credits.Slack)
	ec.PrivateData = own.Append(nil)
	if err := c.takeBackward(conn, ec); err != nil {
		_ = conn.Close() // nothing was sent on it
		return nil, err
	}
	c.conn = rdmap.Client(conn, ec)
	c.back.attach(c.conn)
	if err := c.conn.Handshake(ctx); err != nil {
		return nil, rpc.AsOpError(rpc.OpDial, addr, err)
	}
	peer, told := rpcrdma.ParsePrivateData(c.conn.PeerPrivateData())
	send, recv := own.Inline(peer)
	c.back.thresholds(send)
	if err := c.makeRequester(send, recv); err != nil {
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
	if err := c.configure(ctx, agreed); err != nil {
		c.conn.Abort(nil)
		return nil, rpc.AsOpError(rpc.OpDial, addr, err)
	}
	return c, nil
}

// makeRequester makes the requester machine of an established connection.
func (c *Client) makeRequester(send, recv int) error {
	cfg := c.cfg
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	c.recvSize, c.anyItem = recv, cfg.RFC5666 != nil && cfg.RFC5666.PeerAlign > 0
	c.req = rpcrdma.NewRequester(rpcrdma.RequesterConfig{
		Profile: cfg.profile(), Credits: uint32(cfg.Credits),
		SendSize: send, RecvSize: recv, Binding: cfg.Binding, GatherMin: gatherMin,
		Reads: c.conn.ConnectionState().ORD > 0, MaxRead: cfg.MaxPayload, Align: cfg.rfc5666().PeerAlign,
		Limits: cfg.limits(), Bidirectional: c.back != nil,
	})
	c.ctr.Conns.Store(1)
	c.ctr.Accepted.Store(1)
	return nil
}

// gatherMin is from how many octets on data at the end of a Send are not copied. Choice: more than
// verbs.CopyLimit, and a copy of less costs about what the borrowing does.
const gatherMin = 8 << 10

// limits returns the limits of the chunk lists in one header. Their sum includes what is offered for both
// directions, hence the factor.
func (c *Config) limits() chunks.Limits {
	return chunks.Limits{MaxOctets: 2*uint64(c.MaxPayload) + 64<<10}
}

// Inline returns the sizes in octets, header included, of the largest Sends to the server and
// from it on this connection (RFC 8797 Section 4.2).
func (c *Client) Inline() (send, recv int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cfg := c.req.Config()
	return cfg.SendSize, cfg.RecvSize
}

// Conn returns the underlying RDMAP connection, for its state and statistics.
func (c *Client) Conn() *rdmap.Conn { return c.conn }

// Stats implements [rpc.Caller].
func (c *Client) Stats() rpc.Stats {
	s := c.ctr.Snapshot()
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Credits = c.req.Window()
	s.InFlight = c.req.InFlight()
	s.Padded = c.req.Stats().Padded
	if c.back != nil {
		s.BackwardCalls, s.BackwardReplies = c.back.ctr.Calls.Load(), c.back.ctr.Replies.Load()
	}
	return s
}

// Close implements [rpc.Caller]. It returns the first fatal error of the connection, or nil.
func (c *Client) Close() error {
	return rpc.AsOpError(rpc.OpClose, c.addr, ignoreEnd(c.conn.Close()))
}

// Err returns why the connection has ended, nil if it has not.
func (c *Client) Err() error { return c.conn.Err() }

// Abort ends the connection; calls in flight fail with err.
func (c *Client) Abort(err error) { c.conn.Abort(err) }

// Received returns a number that grows when something arrives.
func (c *Client) Received() uint64 { return c.conn.Stats().OctetsIn }
