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
	"go.uber.org/zap"
)

// Config holds the settings of the responder's connections, all of them set.
type Config struct {
	Credits         int // granted to a connection at most
	BackwardCredits int // 0: no backward direction
	MaxPayload      int // octets of the largest message
	Private         rpcrdma.PrivateData
	CardRecv        int // octets of the largest call that may come inline over a card
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
	// Lazy reports whether the data that a call has in chunks, without which r.Args come, stay at the client until its
	// handler asks for them.
	Lazy(r *rpc.Request) bool
	// Dispatch takes a call. inline says that it runs in the goroutine that reads: then
	// it must be short, or move the call to another goroutine after x.Own.
	Dispatch(x *Call, inline bool)
	// Ended is called once, when no more calls will come.
	Ended(err error)
}

// Responder is the responder's end of a connection: it assembles calls, passes them to the
// application, and sends replies.
type Responder struct {
	cfg     *Config
	Ctr     *memory.Counters
	gate    *admit.Gate
	addr    net.Addr // of the client
	app     App
	exposes *rfc5666 // nil: the connection follows RFC 8166

	// Set before the first Send comes.
	Conn       *rdmap.Conn
	Peer       *admit.Peer
	Protection *tls.ConnectionState // by TLS, nil: the connection is in clear
	Backward   *rpc.Backward        // nil: switched off
	inline     int                  // octets of a call that the client may send inline
	told       bool                 // the client has used RFC 8797
	agreed     int                  // largest Send by RFC 8797, 0 for none
	recvSize   int                  // largest Send from the peer

	partial admit.Ticket  // of an FPDU that does not go on; the goroutine that reads has it
	bulk    bulk          // replies that are being sent
	unbound atomic.Bool   // a call for want of a Binding was logged
	Over    chan struct{} // closed by HandleClose

	mu        sync.Mutex
	resp      *rpcrdma.Responder
	running   int             // calls received and not finished
	waiters   []*rdmap.Waiter // unused ones, for handlers that pull
	pulls     pulls
	share     creditShare
	noPull    bool                 // the client serves no RDMA Reads
	Requester *requester.Requester // of the backward direction, once it was used
	draining  bool                 // no more calls are taken
	gone      bool                 // HandleClose has run
	quiet     chan struct{}        // closed when running is 0 for good
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
	if cfg.RFC5666 != nil {
		rc.exposes = &rfc5666{rc: rc, cfg: cfg.RFC5666}
	}
	return rc
}

// Prepare completes the settings of the underlying connection, once Peer is set.
func (rc *Responder) Prepare(ec *rdmap.Config, conn net.Conn) {
	rc.share.from = rc.gate.Credits()
	ec.Handler = rc
	if rc.share.from != nil {
		ec.Handler = pooledUpcalls{rc}
	}
	own := rc.cfg.Private
	rc.inline = rc.gate.Inline()
	if d, ok := conn.(rdmap.Device); ok {
		own.RemoteInvalidate = own.RemoteInvalidate && d.Caps().SendInvalidate
		n := min(rc.inline, rc.cfg.CardRecv) // each is registered memory, all the time
		rc.gate.InlineIs(rc.inline, n)
		rc.inline = n
	}
	ec.Receives.Size = rc.inline
	rc.partial = rc.Peer.Ticket()
	ec.PartialFPDU = rc.partialFPDU
	own.RecvSize = rc.inline // what is announced, not what is configured: the gate may give less
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
		Credits:  uint32(rc.cfg.Credits),
		SendSize: send, Limits: requester.Limits(rc.cfg.MaxPayload), Binding: rc.cfg.Binding,
		RemoteInvalidate: own.MayInvalidate(peer), PreferReplyChunk: rc.cfg.PreferReplyChunk,
		Bidirectional: rc.cfg.BackwardCredits > 0,
	}
	if rc.share.from != nil {
		c.Credits = 1 // it has to show first that it fills its window
	}
	if p := rc.cfg.RFC5666; p != nil {
		c.Profile, c.Align, c.MaxExposed = rpcrdma.RFC5666, p.PeerAlign, p.MaxExposed
		c.MaxExposedOctets = 4 * int64(rc.cfg.MaxPayload)
	}
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
	rc.mu.Lock()                                   // the start-up has settled what comes here, before the first message is looked at
	if s := &rc.share; s.from != nil && !rc.gone { // nobody would take the share of a connection back that is gone
		s.from.Join(&s.part)
		s.pool = s.from
	}
	if rc.exposes != nil {
		rc.exposes.settled(false)
	}
	rc.mu.Unlock()
	err := rc.Conn.Serve()
	<-rc.Over  // all know
	<-rc.quiet // no handler has anything of the connection
	return err
}

// Drain accepts no more calls, and closes the connection after the last reply was sent.
func (rc *Responder) Drain() {
	rc.mu.Lock()
	rc.draining = true // under the lock with running: no call can begin between the two
	idle := rc.running == 0
	rc.mu.Unlock()
	if idle {
		rc.closeSoon()
	}
}

// closeSoon ends the connection in an orderly way. It may be called in an upcall.
func (rc *Responder) closeSoon() {
	go func() {
		if err := rc.Conn.Close(); requester.IgnoreEnd(err) != nil {
			rc.cfg.Logger.Debug("transport: close", zap.Error(err))
		}
	}()
}

// Close ends the connection in an orderly way, and returns when it has ended. Calls that come meanwhile are not taken.
func (rc *Responder) Close() error {
	rc.mu.Lock()
	rc.draining = true
	rc.mu.Unlock()
	return requester.IgnoreEnd(rc.Conn.Close())
}

// Abort ends the connection now.
func (rc *Responder) Abort() { rc.Conn.Abort(nil) }

// Finish ends a call: its reply was sent, or there will be none.
func (rc *Responder) Finish(x *Call) {
	// Memory before the count: whoever sees that no call runs may look for what is not given back.
	x.Resp.Lent.Release()
	x.releaseMessage()
	if !x.hold.Empty() {
		x.hold.Release()
	}
	live := x.live
	x.recycle()
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

// HandleClose tells the application, and lets Serve return when no call runs.
func (rc *Responder) HandleClose(_ *rdmap.Conn, err error) {
	rc.app.Ended(err)                    // first: it cancels the handlers that would keep the rest waiting
	for _, w := range rc.Peer.Cancel() { // calls that wait for memory; nobody grants it to them any more
		rc.Finish(w.(*Call))
	}
	rc.mu.Lock()
	rc.gone = true
	if s := &rc.share; s.pool != nil {
		s.pool.Leave(&s.part)
	}
	if rc.running == 0 {
		close(rc.quiet)
	}
	caller := rc.Requester
	rc.mu.Unlock()
	if caller != nil {
		caller.Ended(err)
	}
	if rc.exposes != nil {
		rc.exposes.end()
	}
	close(rc.Over)
}

// partialFPDU takes the octets that the connection holds for an FPDU that does not go on, and returns them. The client has
// to send the rest in time, like one that keeps a call waiting.
func (rc *Responder) partialFPDU(n int) {
	if n == 0 {
		rc.partial.Release()
		return
	}
	if more := n - rc.partial.Octets(); more < 0 {
		rc.partial.Add(more)
	} else {
		rc.gate.Awaits(&rc.partial, admit.Arriving, more)
	}
}

// IsDraining reports whether drain was called.
func (rc *Responder) IsDraining() bool {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	return rc.draining
}
