package transport

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/internal/admit"
	"github.com/stag-rdma/stag/transport/internal/count"
	"github.com/stag-rdma/stag/transport/internal/gate"
	"github.com/stag-rdma/stag/transport/internal/parts"
	"github.com/stag-rdma/stag/transport/internal/peer"
	"github.com/stag-rdma/stag/transport/internal/requester"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

// application is what a responder's connection does with complete calls.
type application interface {
	// dispatch takes a call. inline says that it runs in the goroutine that reads: then
	// it must be short, or move the call to another goroutine after x.own.
	dispatch(x *exchange, inline bool)
	// ended is called once, when no more calls will come.
	ended(err error)
}

// respConn is the responder's end of a connection: it assembles calls, passes them to the
// application, and sends replies.
type respConn struct {
	cfg    *Config
	ctr    *count.Counters
	gate   *gate.Gate
	peer   *admit.Peer  // set once the connection is admitted
	half   admit.Ticket // of an FPDU that does not go on
	inline int          // octets of a call that the client may send inline
	app    application
	conn   *rdmap.Conn
	lazy   func(*xdr.CallHeader) bool // calls whose data are pulled only when asked for; nil: none
	ready  func(*exchange) bool       // of those: whether the data may be pulled at once; nil: of none
	over   chan struct{}              // closed by HandleClose

	bulk    bulk        // replies that are being sent
	unbound atomic.Bool // a call for want of a Binding was logged

	mu       sync.Mutex
	resp     *rpcrdma.Responder
	running  int // calls received and not finished
	dones    doneWatch
	withheld []*exchange     // replies that may not be exposed yet, oldest first
	waiters  []*rdmap.Waiter // unused ones, for handlers that pull
	share    creditShare

	told, configured bool                 // the client has used RFC 8797, the configuration protocol
	noPull           bool                 // the client serves no RDMA Reads
	recvSize         int                  // largest Send from the peer
	backward         *rpc.Backward        // nil: switched off
	caller           *requester.Requester // of the backward direction, once it was used
	agreed           int                  // largest Send by RFC 8797, 0 for none

	draining bool
	gone     bool          // HandleClose has run
	quiet    chan struct{} // closed when running is 0 for good
}

// errOverCredit ends a connection whose peer keeps far more calls in flight than it
// was granted (RFC 8166 Section 3.3.1).
var errOverCredit = errors.New("transport: peer exceeds its credits")

// newRespConn prepares the responder's end of a connection; Handshake is next.
func newRespConn(cfg *Config, ctr *count.Counters, g *gate.Gate, app application) *respConn {
	return &respConn{
		cfg: cfg, ctr: ctr, gate: g, app: app,
		over: make(chan struct{}), quiet: make(chan struct{}),
	}
}

// config returns the settings of the underlying connection.
func (rc *respConn) config() *rdmap.Config {
	rc.share.from = rc.gate.Credits()
	ec := rc.cfg.engine(rc.upcalls(), -1)
	rc.inline = rc.gate.Inline()
	ec.RecvSize = rc.inline
	rc.half = rc.peer.Ticket()
	ec.PartialFPDU = rc.halfFPDU
	own := rc.cfg.privateData()
	own.RecvSize = rc.inline
	ec.Accept = func(req *mpa.Request) ([]byte, error) {
		peer, told := rpcrdma.ParsePrivateData(req.PrivateData)
		rc.offerBackward(req.PrivateData)
		rc.setUp(own, peer, told)
		return own.Append(nil), nil
	}
	return ec
}

// setUp makes the machine when the peer's private data are known.
func (rc *respConn) setUp(own, peer rpcrdma.PrivateData, told bool) {
	send, recv := own.Inline(peer)
	r := rpcrdma.NewResponder(rpcrdma.ResponderConfig{
		Profile: rc.cfg.profile(), Credits: rc.firstCredits(),
		SendSize: send, Limits: parts.Limits(rc.cfg.MaxPayload), Binding: rc.cfg.Binding,
		RemoteInvalidate: own.MayInvalidate(peer), PreferReplyChunk: rc.cfg.PreferReplyChunk,
		MaxExposed: rc.cfg.rfc5666().MaxExposed, MaxExposedOctets: 4 * int64(rc.cfg.MaxPayload), Align: rc.cfg.rfc5666().PeerAlign,
		Bidirectional: rc.cfg.Backward.Credits > 0,
	})
	if told { // otherwise the Connection Configuration Protocol may tell
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
}

// leave ends the admission of the connection, which has ended.
func (rc *respConn) leave() {
	rc.gate.InlineIs(rc.inline, 0)
	rc.gate.CreditsBack(rc.share.from)
	rc.peer.Leave()
}

// postReceives posts the receives that the grants promise. The caller holds rc.mu.
func (rc *respConn) postReceives() {
	if n := rc.resp.Credits().Need(); n > 0 {
		rc.conn.PostRecv(n)
		rc.resp.Credits().Posted(n)
	}
}

// serve reads until the connection ends and all its calls are finished.
func (rc *respConn) serve() error {
	rc.begin()
	err := rc.conn.Serve()
	<-rc.over
	<-rc.quiet
	return err
}

// drain accepts no more calls, and closes the connection after the last reply was sent.
func (rc *respConn) drain() {
	rc.mu.Lock()
	rc.draining = true
	idle := rc.running == 0
	rc.mu.Unlock()
	if idle {
		rc.close()
	}
}

// close ends the connection in an orderly way. It may be called in an upcall.
func (rc *respConn) close() {
	go func() {
		if err := rc.conn.Close(); peer.IgnoreEnd(err) != nil {
			rc.cfg.Logger.Debug("transport: close", zap.Error(err))
		}
	}()
}

// abort ends the connection now.
func (rc *respConn) abort() { rc.conn.Abort(nil) }

// finish ends a call: its reply was sent, or there will be none.
func (rc *respConn) finish(x *exchange) {
	x.resp.Release()
	rc.releaseCall(x)
	live := x.live
	exchanges.put(x)
	if !live {
		return
	}
	rc.ctr.InFlight.Add(-1)
	rc.mu.Lock()
	rc.running--
	last := rc.running == 0
	drained := last && rc.draining && !rc.gone
	if last && rc.gone {
		close(rc.quiet)
	}
	rc.mu.Unlock()
	if drained {
		rc.close()
	}
}

// releaseCall releases the memory of the call, which nobody reads anymore.
func (rc *respConn) releaseCall(x *exchange) {
	if x.buf != nil {
		x.buf.Release()
		x.buf = nil
	}
	if !x.hold.Empty() {
		x.hold.Release()
	}
	x.room = 0
	x.dropPayload()
	x.in.RPC = xdr.CallHeader{}
	x.in.Args = nil
}

// isDraining reports whether drain was called.
func (rc *respConn) isDraining() bool {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	return rc.draining
}
