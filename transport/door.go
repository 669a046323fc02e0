package transport

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/internal/accept"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/transport/internal/admit"
	"github.com/stag-rdma/stag/transport/internal/count"
	"github.com/stag-rdma/stag/transport/rpc"
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

// A peer for which calls wait, to send the rest of a record or to answer RDMA Reads, moves minRate octets
// a second, a quarter of what the slowest link still in use carries (256 kbit/s), measured over
// Timeouts.Pull. While others wait for memory, it may rest for hurry: longer than the
// retransmissions of TCP that repair one loss.
const (
	minRate = 8 << 10
	hurry   = 2 * time.Second
	looks   = 4 // within hurry
)

// door is the Gate of a server or listener, with its log. It is safe for concurrent use.
type door struct {
	*admit.Gate
	cfg     *Config
	ctr     *count.Counters
	log     *zap.Logger   // sampled, because peers can cause messages at will
	telling chan struct{} // a place for each refusal in progress
	watches atomic.Bool   // a look at the peers that keep calls waiting is due

	mu       sync.Mutex
	promised int64 // octets of large inline calls for which clients have credits
	full     int   // connections that have credits of no pool

	pool *CreditPool
}

// waitingCall is what a call takes until it may have memory of the budget: a Send of the default size, and what
// is known about the call. Without a bound, those of 400 clients with 32 calls each made a server whose
// Limits.Memory is 64 MiB grow to 204.
const waitingCall = DefaultInlineSize + 1<<10

// credits returns the pool of the next connection, nil if it is always granted Config.Credits. What all clients
// may have waiting takes an eighth of Limits.Memory: one half for the first connections, because a window that
// has to grow makes calls wait behind a slow one, the other half shared by the rest according to load.
func (d *door) credits() *CreditPool {
	if p := d.cfg.CreditPool; p != nil {
		return p
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.full > 0 && (d.full+1)*d.cfg.Credits > d.pool.Stats().Size {
		return d.pool
	}
	d.full++
	return nil
}

// creditsBack takes back what credits has returned to a connection that is gone.
func (d *door) creditsBack(p *CreditPool) {
	if p == nil {
		d.mu.Lock()
		d.full--
		d.mu.Unlock()
	}
}

// inline returns the size of the inline calls that the next connection may send. A call is there before it
// can be made to wait, so what all connections may send at once is limited, beyond a page for each call:
// to Limits.Memory, of which each connection gets at most an eighth of what is left. The first few send as
// much as Config.InlineRecv permits; those of thousands send a page, and the server pulls the rest.
func (d *door) inline() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.cfg.InlineRecv
	for n > DefaultInlineSize && d.promise(n) > (d.cfg.Limits.Memory-d.promised)/8 {
		n = max(n/2/minInline*minInline, DefaultInlineSize)
	}
	d.promised += d.promise(n)
	return n
}

// promise is what a connection may send at once, if each call has n octets.
func (d *door) promise(n int) int64 {
	if n <= DefaultInlineSize {
		return 0
	}
	return int64(n) * int64(d.cfg.Credits)
}

// inlineIs corrects what inline has promised: the size is another, or the connection is gone.
func (d *door) inlineIs(was, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.promised += d.promise(n) - d.promise(was)
}

func newDoor(cfg *Config, ctr *count.Counters) *door {
	// What is spared holds one of the largest calls, and leaves room for one.
	reserve := cfg.Limits.Memory / 16
	spare := max(cfg.Limits.Memory/4, min(int64(cfg.MaxPayload), cfg.Limits.Memory-int64(cfg.MaxPayload))) - reserve
	return &door{
		Gate: admit.New(admit.Config{
			Conns: cfg.Limits.Conns, Limit: cfg.Limits.Memory, Spare: spare, Pulls: cfg.Limits.Pulls,
			Reserve: reserve, Small: callCost,
			Patience: cfg.Timeouts.Pull, Hurry: min(hurry, cfg.Timeouts.Pull), Rate: minRate,
		}),
		cfg: cfg, ctr: ctr, log: accept.Sampled(cfg.Logger), telling: make(chan struct{}, refusals),
		pool: NewCreditPool(int(min(cfg.Limits.Memory/8/2/waitingCall, math.MaxInt32))),
	}
}

// enter admits a connection from a, or returns a *LimitError. m is nil for a connection that makes no
// calls.
func (d *door) enter(a net.Addr, m admit.Mover) (*admit.Peer, error) {
	addr := hostOf(a)
	if f := d.cfg.Limits.Allow; f != nil && !f(a) {
		d.ctr.NotAllowed.Add(1)
		return nil, d.refused(&rpc.LimitError{Limit: rpc.LimitAllow, Client: addr})
	}
	l := d.cfg.clientLimits(a)
	p, v := d.Enter(addr, admit.Limits{Conns: l.Conns, Limit: l.Memory, Pulls: l.Pulls, Exposed: l.Exposed}, m)
	if v == admit.Admitted {
		return p, nil
	}
	d.ctr.TooMany.Add(1)
	if v == admit.TooMany {
		return nil, d.refused(&rpc.LimitError{Limit: rpc.LimitConns, Client: addr, Max: int64(d.cfg.Limits.Conns)})
	}
	return nil, d.refused(&rpc.LimitError{Limit: rpc.LimitClientConns, Client: addr, Max: int64(l.Conns)})
}

// refused logs a refusal.
func (d *door) refused(err *rpc.LimitError) error {
	d.log.Warn("transport: connection refused", zap.String("client", err.Client), zap.Error(err))
	return err
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
		BufferedInput: first, HandshakeTimeout: min(refusalTimeout, d.cfg.Startup.Timeout),
		Accept: func(*mpa.Request) ([]byte, error) { return nil, why },
	})
	_ = c.Handshake(ctx) // it is meant to fail
	<-c.Done()
}

// awaits notes what a call waits for its peer to do, and that it holds n more octets.
func (d *door) awaits(t *admit.Ticket, f admit.Flow, n int) {
	if t.Await(f, n) && d.watches.CompareAndSwap(false, true) {
		time.AfterFunc(d.every(), d.look)
	}
}

// every is the time between two looks.
func (d *door) every() time.Duration { return min(hurry, d.cfg.Timeouts.Pull) / looks }

// look cuts the peers that keep calls waiting, and looks again as long as calls wait for their peers.
func (d *door) look() {
	_, more := d.Look(time.Now())
	if !more {
		d.watches.Store(false)
		// A call that began to wait before the store has not asked for a look.
		if _, more = d.Look(time.Now()); !more || !d.watches.CompareAndSwap(false, true) {
			return
		}
	}
	time.AfterFunc(d.every(), d.look)
}

// stats adds what the clients hold now.
func (d *door) stats(s *rpc.Stats) {
	g := d.Stats()
	s.Held, s.Waited, s.Waiting, s.Pulls = g.Held, g.Waited, g.Waiting, g.Pulls
	p := cmp.Or(d.cfg.CreditPool, d.pool).Stats()
	s.PoolCredits, s.PoolHeld = p.Size, p.Held
}

// stranger logs that a connection ended before it could carry calls, unless it was refused, which is
// logged already.
func (d *door) stranger(client string, err error) {
	if _, refused := errors.AsType[*rpc.LimitError](err); err != nil && !refused {
		d.log.Info("transport: connection not established", zap.String("client", client), zap.Error(err))
	}
}

// came logs that a client can call.
func (d *door) came(client, network string) {
	d.log.Info("transport: client connected", zap.String("client", client), zap.String("transport", network))
}

// went logs why a client that came at the time begun can call no more; nil means that it closed its connection.
func (d *door) went(client, network string, begun time.Time, why error) {
	if why == nil {
		why = errPeerClosed
	}
	if e, ok := errors.AsType[*rpc.OpError](why); ok {
		why = e.Err // the address is in the line
	}
	d.log.Info("transport: client gone", zap.String("client", client), zap.String("transport", network),
		zap.NamedError("why", why), zap.Duration("after", time.Since(begun).Round(time.Microsecond)))
}

// ended counts the connections that ended because of a slow peer. It returns err.
func (d *door) ended(err error) error {
	if e, ok := errors.AsType[*rpc.OpError](err); ok && e.Timeout() {
		d.ctr.Slow.Add(1)
	}
	return err
}
