package transport

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/internal/accept"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"go.uber.org/zap"
)

// A refused peer is told so in an MPA Reply (RFC 5044 Section 7.1.2), if its Request comes in time
// and not too many others are being told. It does not count as a connection, so that refused peers
// keep nobody out.
const (
	refusals       = 64
	refusalTimeout = 2 * time.Second
)

// errPeerClosed is why a connection is gone that ended in an orderly way.
var errPeerClosed = errors.New("the client closed the connection")

// door admits connections: it knows which clients are allowed, and the limits in total and per
// client. It is safe for concurrent use.
type door struct {
	cfg     *Config
	ctr     *counters
	log     *zap.Logger   // sampled, because peers can cause messages at will
	telling chan struct{} // a place for each refusal in progress

	mu      sync.Mutex
	total   int
	clients map[string]*client
}

// client is the address of a peer that has connections, and what it holds.
type client struct {
	addr    string
	limits  ClientLimits
	conns   int // guarded by door.mu
	share   share
	exposed atomic.Int64 // octets of replies that wait to be read
}

func newDoor(cfg *Config, ctr *counters) *door {
	return &door{
		cfg: cfg, ctr: ctr, log: accept.Sampled(cfg.Logger),
		telling: make(chan struct{}, refusals), clients: make(map[string]*client),
	}
}

// enter admits a connection from a, or returns a *LimitError.
func (d *door) enter(a net.Addr) (*client, error) {
	if f := d.cfg.Allow; f != nil && !f(a) {
		d.ctr.notAllowed.Add(1)
		return nil, d.refused(&LimitError{Limit: LimitAllow, Client: hostOf(a)})
	}
	addr := hostOf(a)
	d.mu.Lock()
	cl := d.clients[addr]
	if cl == nil {
		cl = &client{addr: addr, limits: d.cfg.clientLimits(a)}
		cl.share.init(cl.limits)
	}
	var err *LimitError
	switch {
	case d.total >= d.cfg.MaxConns:
		err = &LimitError{LimitConns, addr, int64(d.cfg.MaxConns)}
	case cl.conns >= cl.limits.Conns:
		err = &LimitError{LimitClientConns, addr, int64(cl.limits.Conns)}
	default:
		d.clients[addr] = cl
		cl.conns++
		d.total++
	}
	d.mu.Unlock()
	if err != nil {
		d.ctr.tooMany.Add(1)
		return nil, d.refused(err)
	}
	return cl, nil
}

// refused logs a refusal.
func (d *door) refused(err *LimitError) error {
	d.log.Warn("transport: connection refused", zap.String("client", err.Client), zap.Error(err))
	return err
}

// leave takes back the place of a connection that enter has admitted.
func (d *door) leave(cl *client) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.total--
	if cl.conns--; cl.conns == 0 {
		delete(d.clients, cl.addr)
	}
}

// turnAway ends a connection that was not admitted, and from which the octets in first have been
// read: with a rejecting MPA Reply if that is cheap. It returns when the connection is closed.
func (d *door) turnAway(ctx context.Context, conn net.Conn, first []byte, why error) {
	select {
	case d.telling <- struct{}{}:
		defer func() { <-d.telling }()
	default:
		_ = conn.Close() // nothing was sent on it
		return
	}
	c := rdmap.Server(conn, &rdmap.Config{
		BufferedInput: first, HandshakeTimeout: min(refusalTimeout, d.cfg.HandshakeTimeout),
		Accept: func(*mpa.Request) ([]byte, error) { return nil, why },
	})
	_ = c.Handshake(ctx) // it is meant to fail
	<-c.Done()
}

// stranger logs that a connection ended before it could carry calls, unless it was refused, which is
// logged already.
func (d *door) stranger(client string, err error) {
	if _, refused := errors.AsType[*LimitError](err); err != nil && !refused {
		d.log.Info("transport: connection not established", zap.String("client", client), zap.Error(err))
	}
}

// came logs that a client can call, and returns the logger of its end.
func (d *door) came(client, network string) (gone func(why error)) {
	log, begun := d.log.With(zap.String("client", client), zap.String("transport", network)), time.Now()
	log.Info("transport: client connected")
	return func(why error) {
		if why == nil {
			why = errPeerClosed
		}
		if e, ok := errors.AsType[*OpError](why); ok {
			why = e.Err // the address is in the line
		}
		log.Info("transport: client gone", zap.NamedError("why", why), zap.Duration("after", time.Since(begun).Round(time.Microsecond)))
	}
}

// ended counts the connections that ended because of a slow peer. It returns err.
func (c *counters) ended(err error) error {
	if e, ok := errors.AsType[*OpError](err); ok && e.Timeout() {
		c.slow.Add(1)
	}
	return err
}
