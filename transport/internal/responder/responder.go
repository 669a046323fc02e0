// Package responder answers the calls of one RPC-over-RDMA connection (RFC 8166): it checks them, takes memory for
// them, pulls their chunks, hands them to the server above, and sends the replies. The machine of package rpcrdma
// decides; this package adds memory, admission, and time.
package responder

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/internal/admit"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/internal/requester"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

// Config holds the settings of the responder's connections, all of them set.
type Config struct {
	Credits         int // granted to a connection at most
	BackwardCredits int // 0: no backward direction
	MaxPayload      int // octets of the largest message
	Private         rpcrdma.PrivateData
	Binding         chunks.Binding

	AnyCred          bool // no credential is refused
	PreferReplyChunk bool

	RFC5666      *RFC5666 // nil: RFC 8166
	CloseTimeout time.Duration
	Requester    requester.Config // of backward calls
	Trace        *rpc.Trace
	Logger       *zap.Logger
}

// RFC5666 has the settings of connections that follow that document; see transport.RFC5666.
type RFC5666 struct {
	Align, PeerAlign int
	DoneTimeout      time.Duration
	MaxExposed       int
	ExposedMemory    int64
}

// App is what a responder's connection does with complete calls.
type App interface {
	// Dispatch takes a call. inline says that it runs in the goroutine that reads: then
	// it must be short, or move the call to another goroutine after x.own.
	Dispatch(x *Call, inline bool)
	// Ended is called once, when no more calls will come.
	Ended(err error)
}

// Responder is the responder's end of a connection: it assembles calls, passes them to the
// application, and sends replies.
type Responder struct {
	cfg        *Config
	Ctr        *memory.Counters
	gate       *admit.Gate
	Peer       *admit.Peer  // set once the connection is admitted
	partial    admit.Ticket // of an FPDU that does not go on
	inline     int          // octets of a call that the client may send inline
	addr       net.Addr     // of the client
	profile    profile
	app        App
	Conn       *rdmap.Conn
	Protection *tls.ConnectionState          // by TLS, nil: the connection is in clear; set before the first call
	Describe   func(*rpc.Request) rpc.Traits // nil: no handler is asked, and no call is lazy
	Ready      func(*rpc.Request) bool       // of lazy ones: whether the data may be pulled at once
	Over       chan struct{}                 // closed by HandleClose

	bulk    bulk        // replies that are being sent
	unbound atomic.Bool // a call for want of a Binding was logged

	mu      sync.Mutex
	resp    *rpcrdma.Responder
	running int             // calls received and not finished
	waiters []*rdmap.Waiter // unused ones, for handlers that pull
	share   creditShare

	told      bool                 // the client has used RFC 8797
	noPull    bool                 // the client serves no RDMA Reads
	recvSize  int                  // largest Send from the peer
	Backward  *rpc.Backward        // nil: switched off
	Requester *requester.Requester // of the backward direction, once it was used
	agreed    int                  // largest Send by RFC 8797, 0 for none

	draining bool
	gone     bool          // HandleClose has run
	quiet    chan struct{} // closed when running is 0 for good
}

// ErrOverCredit ends a connection whose peer keeps far more calls in flight than it
// was granted (RFC 8166 Section 3.3.1).
var ErrOverCredit = errors.New("transport: peer exceeds its credits")

// TLS returns what protects the connection, nil if nothing does.
func (rc *Responder) TLS() *tls.ConnectionState { return rc.Protection }

// Refuse ends the connection because of err.
func (rc *Responder) Refuse(err error) { rc.Conn.Abort(err) }

// New prepares the responder's end of a connection; Handshake is next.
func New(cfg *Config, ctr *memory.Counters, g *admit.Gate, addr net.Addr, app App) *Responder {
	rc := &Responder{
		cfg: cfg, Ctr: ctr, gate: g, addr: addr, app: app,
		Over: make(chan struct{}), quiet: make(chan struct{}),
	}
	rc.profile = rfc8166{rc}
	if cfg.RFC5666 != nil {
		rc.profile = &rfc5666{rc: rc, cfg: cfg.RFC5666}
	}
	return rc
}

// Prepare completes the settings of the underlying connection, once Peer is set.
func (rc *Responder) Prepare(ec *rdmap.Config) {
	rc.share.from = rc.gate.Credits()
	ec.Handler = rc.upcalls()
	rc.inline = rc.gate.Inline()
	ec.Receives.Size = rc.inline
	rc.partial = rc.Peer.Ticket()
	ec.PartialFPDU = rc.partialFPDU
	own := rc.cfg.Private
	own.RecvSize = rc.inline
	ec.Startup.Accept = func(req *mpa.Request) ([]byte, error) {
		peer, told := rpcrdma.ParsePrivateData(req.PrivateData)
		rc.offerBackward(req.PrivateData)
		if err := rc.setUp(own, peer, told); err != nil {
			return nil, err
		}
		return own.Append(nil), nil
	}
}

// setUp makes the machine when the peer's private data are known.
func (rc *Responder) setUp(own, peer rpcrdma.PrivateData, told bool) error {
	send, recv := own.Inline(peer)
	c := rpcrdma.ResponderConfig{
		Credits:  rc.firstCredits(),
		SendSize: send, Limits: requester.Limits(rc.cfg.MaxPayload), Binding: rc.cfg.Binding,
		RemoteInvalidate: own.MayInvalidate(peer), PreferReplyChunk: rc.cfg.PreferReplyChunk,
		Bidirectional: rc.cfg.BackwardCredits > 0,
	}
	rc.profile.machine(&c)
	r, err := rpcrdma.NewResponder(c)
	if err != nil {
		return err
	}
	if told { // otherwise the Connection Configuration Protocol may tell
		// What the client has not promised to keep to is not given to others.
		rc.Conn.LimitRecv(recv)
		rc.gate.InlineIs(rc.inline, recv)
		rc.inline = recv
	}
	rc.mu.Lock()
	defer rc.mu.Unlock()
	rc.resp, rc.told, rc.recvSize = r, told, recv
	if told {
		rc.agreed = send
	}
	rc.postReceives()
	return nil
}

// Leave ends the admission of the connection, which has ended.
func (rc *Responder) Leave() {
	rc.gate.InlineIs(rc.inline, 0)
	rc.gate.CreditsBack(rc.share.from)
	rc.Peer.Leave()
}

// postReceives posts the receives that the grants promise. The caller holds rc.mu.
func (rc *Responder) postReceives() {
	if n := rc.resp.Credits().Need(); n > 0 {
		rc.Conn.PostRecv(n)
		rc.resp.Credits().Posted(n)
	}
}

// Serve reads until the connection ends and all its calls are finished.
func (rc *Responder) Serve() error {
	rc.begin()
	err := rc.Conn.Serve()
	<-rc.Over
	<-rc.quiet
	return err
}

// Drain accepts no more calls, and closes the connection after the last reply was sent.
func (rc *Responder) Drain() {
	rc.mu.Lock()
	rc.draining = true
	idle := rc.running == 0
	rc.mu.Unlock()
	if idle {
		rc.closeSoon()
	}
}

// closeSoon ends the connection in an orderly way. It may be called in an upcall.
func (rc *Responder) closeSoon() {
	go func() {
		if err := rc.Conn.Close(); rpc.IgnoreEnd(err) != nil {
			rc.cfg.Logger.Debug("transport: close", zap.Error(err))
		}
	}()
}

// Close ends the connection in an orderly way, and returns when it has ended. Calls that come meanwhile are not taken.
func (rc *Responder) Close() error {
	rc.mu.Lock()
	rc.draining = true
	rc.mu.Unlock()
	return rpc.IgnoreEnd(rc.Conn.Close())
}

// Abort ends the connection now.
func (rc *Responder) Abort() { rc.Conn.Abort(nil) }

// Finish ends a call: its reply was sent, or there will be none.
func (rc *Responder) Finish(x *Call) {
	x.Resp.Lent.Release()
	rc.ReleaseCall(x)
	live := x.live
	Calls.put(x)
	if !live {
		return
	}
	rc.Ctr.InFlight.Add(-1)
	rc.mu.Lock()
	rc.running--
	last := rc.running == 0
	drained := last && rc.draining && !rc.gone
	if last && rc.gone {
		close(rc.quiet)
	}
	rc.mu.Unlock()
	if drained {
		rc.closeSoon()
	}
}

// ReleaseCall releases the memory of the call, which nobody reads anymore.
func (rc *Responder) ReleaseCall(x *Call) {
	if x.buf != nil {
		x.buf.Release()
		x.buf = nil
	}
	if !x.hold.Empty() {
		x.hold.Release()
	}
	x.room = 0
	x.forgetArgs()
}

// ReleaseArgs is ReleaseCall for a call that will be answered: what it holds for its reply it keeps.
func (rc *Responder) ReleaseArgs(x *Call) {
	if x.room == 0 {
		rc.ReleaseCall(x)
		return
	}
	if x.buf != nil {
		x.buf.Release()
		x.buf = nil
	}
	x.hold.Add(min(x.room-x.hold.Octets(), 0))
	x.forgetArgs()
}

// forgetArgs forgets views of memory that is released.
func (x *Call) forgetArgs() {
	x.dropPayload()
	x.In.RPC = xdr.CallHeader{}
	x.In.Args = nil
}

// IsDraining reports whether drain was called.
func (rc *Responder) IsDraining() bool {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	return rc.draining
}
