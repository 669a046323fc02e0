// Package requester makes the calls of one RPC-over-RDMA connection (RFC 8166): it plans them, takes credits,
// registers memory, and finds the call that a reply answers. The machine of package rpcrdma decides; this package
// adds memory, waiting, and time.
package requester

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/internal/list"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

// Config holds the settings of a Requester, all of them set.
type Config struct {
	Credits                int  // asked for
	InlineSend, InlineRecv int  // octets of the largest Sends, as configured
	MaxPayload             int  // octets of the largest message
	Bidirectional          bool // the connection has a backward direction (RFC 8167)
	NoRemoteInvalidate     bool
	Binding                chunks.Binding

	RFC5666    bool     // the connection follows that document, otherwise RFC 8166
	PeerAlign  int      // alignment of the peer's receive buffers, 0: unknown
	ConfigCred xdr.Auth // of the call of the Connection Configuration Protocol

	CallTimeout  time.Duration // of calls whose context has no deadline; 0: none
	CloseTimeout time.Duration // for the engine to release memory

	Trace  *rpc.Trace
	Logger *zap.Logger
}

// Receives posts the receives for replies, one for each call. A client's own connection needs none: its receives are
// posted when it begins, and replaced as they are used.
type Receives interface {
	ExpectReply()   // a call is about to be sent (RFC 8167 Section 4.3.2)
	UnexpectReply() // it was not sent
}

// Requester makes calls on one connection. It is safe for concurrent use. It has no goroutine: callers that wait read.
type Requester struct {
	cfg      Config
	conn     *rdmap.Conn
	addr     string
	ctr      *memory.Counters
	receives Receives // not nil: the calls go backward, on a connection of a server

	recvSize int           // the reply threshold
	anyItem  bool          // opaques that no binding names may be reduced
	over     chan struct{} // closed when the connection is over and all calls know
	idle     sync.Pool     // of *outstanding: one per requester, because each has a channel

	mu      sync.Mutex
	req     *rpcrdma.Requester
	xid     uint32
	queue   list.List[outstanding]    // calls that wait for a credit, first come, first served
	granted bool                      // a reply has told how many calls may be outstanding
	order   uint64                    // of the latest message received
	live    map[*outstanding]struct{} // calls with a deadline, for the tick
	err     error                     // why the connection is over
	ticked  bool                      // the process-wide tick knows this requester
}

var _ rpc.Caller = (*Requester)(nil)

// New returns the requester of a connection to addr; Attach and Start are next. With receives, calls go backward.
func New(cfg Config, addr string, ctr *memory.Counters, receives Receives) *Requester {
	return &Requester{cfg: cfg, addr: addr, ctr: ctr, receives: receives, xid: rand.Uint32(), over: make(chan struct{})}
}

// Attach sets the connection, before anything arrives on it.
func (c *Requester) Attach(conn *rdmap.Conn) { c.conn = conn }

// Start begins with the calls of an established connection. Its largest Sends have send octets, those of replies recv.
func (c *Requester) Start(send, recv int) error {
	cfg := &c.cfg
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	c.recvSize, c.anyItem = recv, cfg.PeerAlign > 0 // who says how its peer aligns says that it follows RFC 5666
	rc := rpcrdma.RequesterConfig{
		Credits: uint32(cfg.Credits), SendSize: send, RecvSize: recv, Binding: cfg.Binding,
		Limits: Limits(cfg.MaxPayload), Bidirectional: cfg.Bidirectional, NoChunks: c.receives != nil,
	}
	if c.receives == nil {
		rc.GatherMin, rc.MaxRead, rc.Align = gatherMin, cfg.MaxPayload, cfg.PeerAlign
		rc.Reads = c.conn.ConnectionState().ORD > 0
		if cfg.RFC5666 {
			rc.Profile = rpcrdma.RFC5666
		}
		c.ctr.Conns.Store(1)
		c.ctr.Accepted.Store(1)
	}
	var err error
	c.req, err = rpcrdma.NewRequester(rc)
	return err
}

// gatherMin is from how many octets on data at the end of a Send are not copied. Choice: more than
// verbs.CopyLimit, and a copy of less costs about what the borrowing does.
const gatherMin = 8 << 10

// Inline returns the sizes in octets of the largest Sends in both directions.
func (c *Requester) Inline() (send, recv int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cfg := c.req.Config()
	return cfg.SendSize, cfg.RecvSize
}

// Stats implements [rpc.Caller].
func (c *Requester) Stats() rpc.Stats {
	s := StatsOf(c.ctr)
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Credits, s.InFlight, s.Padded, s.Waiting = c.req.Window(), c.req.InFlight(), c.req.Padded(), c.queue.Len()
	return s
}

// Close implements [rpc.Caller]. It returns the first fatal error of the connection, or nil.
func (c *Requester) Close() error {
	return rpc.AsOpError(rpc.OpClose, c.addr, IgnoreEnd(c.conn.Close()))
}

// Over returns a channel that is closed when the connection is over and all calls know. Err then says why.
func (c *Requester) Over() <-chan struct{} { return c.over }
