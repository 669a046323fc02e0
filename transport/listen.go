package transport

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/stag-rdma/stag/internal/accept"
	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/transport/internal/admit"
	"github.com/stag-rdma/stag/transport/internal/execute"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/internal/requester"
	"github.com/stag-rdma/stag/transport/internal/responder"
	"github.com/stag-rdma/stag/transport/internal/stream"
	"github.com/stag-rdma/stag/transport/rpc"
)

// acceptQueue limits the connections that are ready but not accepted yet.
const acceptQueue = 128

// Listener accepts RPC-over-RDMA connections and returns them as record-marked connections. It is
// safe for concurrent use.
type Listener struct {
	l       net.Listener
	cfg     *Config
	ctr     memory.Counters
	gate    *admit.Gate
	exec    *execute.Executor
	changes func(prog, vers, proc uint32) bool // Duplicates.NonIdempotent
	resp    *responder.Config
	ready   chan net.Conn
	ctx     context.Context // of start-ups; ends with Close
	cancel  context.CancelFunc

	mu    sync.Mutex
	err   error // why accepting ended
	conns map[secured]struct{}
}

var _ net.Listener = (*Listener)(nil)

// Listen announces on an address of a stream network, normally "tcp" and port 20049, and returns
// a listener for servers that speak record-marked ONC RPC (RFC 5531 Section 11) on a net.Conn.
// Its connections run RPC-over-RDMA underneath. Read returns records of whole, unreduced calls.
// Write takes records of whole replies, whose DDP-eligible result leaves by RDMA Write
// (Config.Binding finds it, RFC 8267 Section 4).
//
// When a call named by Duplicates.NonIdempotent comes again, over any connection, it is answered from
// a duplicate request cache.
//
// The dynamic type of the result is *[Listener], which has Stats.
func Listen(network, addr string, cfg *Config) (net.Listener, error) {
	c, err := cfg.fillListener() // before the port is taken
	if err != nil {
		return nil, err
	}
	l, err := net.Listen(network, addr)
	if err != nil {
		return nil, rpc.AsOpError(rpc.OpListen, addr, err)
	}
	return newListener(l, c), nil
}

// NewListener is like [Listen], on an existing listener, which it takes.
func NewListener(l net.Listener, cfg *Config) (*Listener, error) {
	if err := given("listener", l); err != nil {
		return nil, err
	}
	c, err := cfg.fillListener()
	if err != nil {
		return nil, err
	}
	return newListener(l, c), nil
}

// newListener makes a listener that accepts and starts connections until it is closed.
func newListener(inner net.Listener, cfg *Config) *Listener {
	cfg.asServer()
	l := &Listener{l: inner, cfg: cfg, ready: make(chan net.Conn, acceptQueue), conns: make(map[secured]struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.resp = cfg.responder()
	l.gate = admit.New(cfg.gate(), &l.ctr)
	l.changes = changesNFS3
	if cfg.Duplicates.NonIdempotent != nil {
		l.changes = cfg.Duplicates.NonIdempotent
	}
	l.exec = execute.New(l.ctx, execute.NewDuplicates(cfg.duplicates()), &l.ctr, cfg.Logger, false, nil)
	go func() { l.stop(accept.Serve(l.ctx, inner, func(c net.Conn) { go l.start(c, l.exec.Turn()) })) }()
	return l
}

// start runs the MPA start-up of a connection and queues it for Accept.
func (l *Listener) start(conn net.Conn, turn execute.Turn) {
	ls := newFanout(l, conn, turn)
	defer l.exec.Leave(ls.at)
	rc := ls.rc
	var err error
	if rc.Peer, err = l.gate.Enter(conn.RemoteAddr(), rc.Mover()); err != nil {
		l.gate.TurnAway(l.ctx, conn, nil, err)
		return
	}
	defer rc.Leave()
	ec := l.cfg.engine(-1)
	rc.Prepare(ec, conn)
	if l.cfg.TLS.Config != nil {
		if conn, ec.Startup.BufferedInput, err = l.secure(conn, rc); err != nil {
			l.gate.Stranger(peeraddr.Of(conn), l.gate.Ended(rpc.AsOpError(rpc.OpAccept, peeraddr.Of(conn), err)))
			return
		}
	}
	rc.Conn = rdmap.Server(conn, ec)
	if err := l.add(rc); err != nil {
		rc.Conn.Abort(err)
		return
	}
	defer l.drop(rc)
	if err := rc.Conn.Handshake(l.ctx); err != nil {
		l.gate.Stranger(peeraddr.Of(conn), l.gate.Ended(rpc.AsOpError(rpc.OpAccept, peeraddr.Of(conn), err)))
		return
	}
	l.ctr.Accepted.Add(1)
	begun := time.Now()
	network := stream.NameOf("rdma", rc.Protection)
	l.gate.Came(peeraddr.Of(conn), network)
	for _, c := range ls.all {
		select {
		case l.ready <- c:
		case <-l.ctx.Done():
			rc.Conn.Abort(nil)
		}
	}
	l.gate.Went(peeraddr.Of(conn), network, begun, l.gate.Ended(rpc.AsOpError(rpc.OpServe, peeraddr.Of(conn), requester.IgnoreEnd(rc.Serve()))))
}

// secure begins TLS on conn, if its client does. first was read from the result. If it returns an error, conn is closed.
func (l *Listener) secure(conn net.Conn, rc *responder.Responder) (_ net.Conn, first []byte, err error) {
	inner, first, state, err := l.cfg.TLS.acceptIn(l.ctx, conn, l.cfg.Startup.Timeout)
	if errors.Is(err, errClear) {
		l.gate.TurnAway(l.ctx, conn, first, err)
	} else if err != nil {
		l.ctr.TLSFailed.Add(1)
	}
	if err != nil {
		_ = conn.Close() // crypto/tls has sent its alert
		return conn, nil, err
	}
	rc.Protection = state
	return inner, first, nil
}

// add admits a connection, and asks again whether it is trusted: from here on, RecheckTLS finds it.
func (l *Listener) add(c secured) error {
	l.mu.Lock()
	err := l.err
	if err == nil {
		l.conns[c] = struct{}{}
		l.ctr.Conns.Add(1)
	}
	l.mu.Unlock()
	if err != nil {
		return err
	}
	if err = l.cfg.TLS.verify(c); err != nil {
		l.drop(c)
	}
	return err
}

// drop forgets a connection that has ended.
func (l *Listener) drop(c secured) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
	l.ctr.Conns.Add(-1)
}

// stop ends accepting with the first error.
func (l *Listener) stop(err error) {
	l.mu.Lock()
	if l.err == nil {
		l.err = err
	}
	l.mu.Unlock()
	l.cancel()
}

// Accept returns the next connection whose MPA start-up has completed.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.ready:
		return c, nil
	case <-l.ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		return nil, rpc.AsOpError(rpc.OpAccept, l.l.Addr().String(), l.err)
	}
}

// Close stops listening. It closes connections that are starting up or were not accepted yet; accepted
// ones stay open. It is idempotent.
func (l *Listener) Close() error {
	l.stop(net.ErrClosed) // first, so that Accept tells why
	_ = l.l.Close()       // already closed, or nothing can be done
	for {
		select {
		case c := <-l.ready:
			if r, ok := c.(*recordConn); ok {
				r.rc.Conn.Abort(nil)
			} else {
				_ = c.Close() // nothing was sent on it
			}
		default:
			return nil
		}
	}
}

// Addr returns the address listened on.
func (l *Listener) Addr() net.Addr { return l.l.Addr() }

// Stats returns the counters of all connections, past ones included.
func (l *Listener) Stats() rpc.Stats {
	s := requester.StatsOf(&l.ctr)
	s.Credits = l.cfg.Credits
	l.gate.AddStats(&s)
	l.exec.Duplicates.AddStats(&s)
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		addTLS(&s, c)
	}
	return s
}
