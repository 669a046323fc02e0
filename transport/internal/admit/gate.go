package admit

import (
	"context"
	"errors"
	"math"
	"net"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/credits"
	"github.com/stag-rdma/stag/internal/accept"
	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/internal/shared"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

// A refused peer is told so in an MPA Reply (RFC 5044 Section 7.1.2), if its Request comes in time
// and not too many others are being told. It does not count as a connection, so that refused peers
// keep nobody out.
const (
	refusals       = 64
	refusalTimeout = 2 * time.Second
)

// ErrUnread ends a connection whose peer does not take what it has asked for.
var ErrUnread error = &rpc.SlowPeerError{What: "does not read replies, or too slowly"}

// errPeerClosed is why a connection is gone that ended in an orderly way.
var errPeerClosed = errors.New("the client closed the connection")

// A peer for which calls wait, to send the rest of a record or to answer RDMA Reads, moves minRate octets
// a second, a quarter of what the slowest link still in use carries (256 kbit/s), measured over
// Timeouts.Pull. While others wait for memory, it is measured over hurry: longer than the
// retransmissions of TCP that repair one loss.
const (
	MinRate = 8 << 10
	hurry   = time.Second
	looks   = 4 // within hurry
)

// Config holds the settings of a Gate, all of them set but Allow.
type Config struct {
	Allow  func(net.Addr) bool   // nil: all
	Limits func(net.Addr) Limits // of the client with an address

	Conns, Pulls int
	Memory       int64 // octets

	Credits, InlineRecv, MaxPayload int // of each connection

	Pull, Startup time.Duration // timeouts
	Logger        *zap.Logger
}

// Gate is the Gate of a server or listener, with its log. It is safe for concurrent use.
type Gate struct {
	*Budget
	cfg     Config
	ctr     *memory.Counters
	log     *zap.Logger   // sampled, because peers can cause messages at will
	telling chan struct{} // a place for each refusal in progress
	watches atomic.Bool   // a look at the peers that keep calls waiting is due

	mu       shared.Mutex
	promised int64 // octets of large inline calls for which clients have credits
	full     int   // connections that have credits of no pool

	pool *Pool
}

// Page is what a call may have inline without being counted, in octets, and granularity that of inline sizes
// (RFC 8797 Section 4).
const (
	Page        = 4096
	granularity = 1024
)

// CallCost is about what a call costs that does not run where it was read: a stack, a buffer, the
// request and the response.
const CallCost = 16 << 10

// An idle connection costs ConnCost: measured, 14 to 17 KiB of resident memory, over RDMA and over TCP once it has
// made a call. What FreeConns of them cost is not taken from Limits.Memory.
const (
	ConnCost  = 16 << 10
	FreeConns = 2048
)

// waitingCall is what a call takes until it may have memory of the budget: a Send of the default size, and what
// is known about the call. Without a bound, those of 400 clients with 32 calls each made a server whose
// Limits.Memory is 64 MiB grow to 204.
const waitingCall = Page + 1<<10

// Credits returns the pool of the next connection, nil if it is always granted Config.Credits. What all clients
// may have waiting takes an eighth of Limits.Memory: one half for the first connections, because a window that
// has to grow makes calls wait behind a slow one, the other half shared by the rest according to load.
func (g *Gate) Credits() *Pool {
	g.mu.Lock()
	defer g.mu.Unlock()
	// The first one gets all that it is configured for, also if that is more than the half.
	if g.full > 0 && (g.full+1)*g.cfg.Credits > g.pool.pool.Size() {
		return g.pool
	}
	g.full++
	return nil
}

// CreditsBack takes back what credits has returned to a connection that is gone.
func (g *Gate) CreditsBack(p *Pool) {
	if p == nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.full--
	}
}

// Inline returns the size of the inline calls that the next connection may send. A call is there before it
// can be made to wait, so what all connections may send at once is limited, beyond a page for each call:
// to Limits.Memory, of which each connection gets at most an eighth of what is left. The first few send as
// much as InlineRecv permits; those of thousands send a page, and the server pulls the rest.
func (g *Gate) Inline() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.cfg.InlineRecv
	// An eighth of what is left, never all: there is always something for one more.
	for n > Page && g.promise(n) > (g.cfg.Memory-g.promised)/8 {
		n = max(n/2/granularity*granularity, Page)
	}
	g.promised += g.promise(n)
	return n
}

// promise is what a connection may send at once, if each call has n octets.
func (g *Gate) promise(n int) int64 {
	if n <= Page {
		return 0
	}
	return int64(n) * int64(g.cfg.Credits)
}

// InlineIs corrects what inline has promised: the size is another, or the connection is gone.
func (g *Gate) InlineIs(was, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.promised += g.promise(n) - g.promise(was)
}

// New returns the gate of a server or listener.
func New(cfg Config, ctr *memory.Counters) *Gate {
	// What is spared holds one of the largest calls, and leaves room for one.
	reserve := cfg.Memory / 16
	spare := max(cfg.Memory/4, min(int64(cfg.MaxPayload), cfg.Memory-int64(cfg.MaxPayload))) - reserve
	return &Gate{
		Budget: NewBudget(BudgetConfig{
			Conns: cfg.Conns, Limit: cfg.Memory, Spare: spare, Pulls: cfg.Pulls,
			Reserve: reserve, Small: CallCost, FreeConns: FreeConns, ConnCost: ConnCost,
			Patience: cfg.Pull, Hurry: min(hurry, cfg.Pull), Rate: MinRate,
		}),
		cfg: cfg, ctr: ctr, log: accept.Sampled(cfg.Logger), telling: make(chan struct{}, refusals),
		pool: &Pool{pool: credits.NewPool(uint32(min(max(cfg.Memory/8/2/waitingCall, 1), math.MaxInt32)))},
	}
}

// Enter admits a connection from a, or returns a *LimitError. m is nil for a connection that makes no
// calls.
func (g *Gate) Enter(a net.Addr, m Mover) (*Peer, error) {
	addr := peeraddr.Host(a)
	if f := g.cfg.Allow; f != nil && !f(a) { // before it takes anything that others could want
		g.ctr.NotAllowed.Add(1)
		return nil, g.refused(&rpc.LimitError{Limit: rpc.LimitAllow, Client: addr})
	}
	l := g.cfg.Limits(a)
	p, v := g.Budget.Enter(peeraddr.ShareOf(addr), l, m)
	if v == Admitted {
		return p, nil
	}
	g.ctr.TooMany.Add(1)
	if v == TooMany {
		return nil, g.refused(&rpc.LimitError{Limit: rpc.LimitConns, Client: addr, Max: int64(g.cfg.Conns)})
	}
	return nil, g.refused(&rpc.LimitError{Limit: rpc.LimitClientConns, Client: addr, Max: int64(l.Conns)})
}

// refused logs a refusal.
func (g *Gate) refused(err *rpc.LimitError) error {
	g.log.Warn("transport: connection refused", zap.String("client", err.Client), zap.Error(err))
	return err
}

// TurnAway ends a connection that was not admitted, and from which the octets in first have been
// read: with a rejecting MPA Reply if that is cheap. It returns when the connection is closed.
func (g *Gate) TurnAway(ctx context.Context, conn net.Conn, first []byte, why error) {
	if d, ok := conn.(rdmap.Device); ok {
		d.Refuse(nil) // a start would register memory first
		return
	}
	select {
	case g.telling <- struct{}{}:
		defer func() { <-g.telling }()
	default:
		_ = conn.Close() // nothing was sent on it
		return
	}
	c := rdmap.Server(conn, &rdmap.Config{Startup: rdmap.Startup{
		BufferedInput: first, Timeout: min(refusalTimeout, g.cfg.Startup),
		Accept: func(*mpa.Request) ([]byte, error) { return nil, why },
	}})
	_ = c.Handshake(ctx) // it is meant to fail
	<-c.Done()           // else the reply might be lost with the socket
}

// Awaits notes what a call waits for its peer to do, and that it holds n more octets.
func (g *Gate) Awaits(t *Ticket, f Flow, n int) {
	if t.Await(f, n) && g.watches.CompareAndSwap(false, true) {
		time.AfterFunc(g.every(), g.look)
	}
}

// every is the time between two looks.
func (g *Gate) every() time.Duration { return min(hurry, g.cfg.Pull) / looks }

// look cuts the peers that keep calls waiting, and looks again as long as calls wait for their peers.
func (g *Gate) look() {
	_, more := g.Look(time.Now())
	if !more {
		g.watches.Store(false)
		// A call that began to wait before the store has not asked for a look.
		if _, more = g.Look(time.Now()); !more || !g.watches.CompareAndSwap(false, true) {
			return
		}
	}
	time.AfterFunc(g.every(), g.look)
}

// Refuses answers a call whose handler will take n octets, which are more than there are for all, by SYSTEM_ERR.
func (g *Gate) Refuses(req *rpc.Request, resp *rpc.Response, n int) bool {
	if int64(n) <= g.cfg.Memory { // else it would wait for ever, and others behind it
		return false
	}
	g.ctr.Errors.Add(1)
	g.log.Warn("transport: a call needs more memory than Limits.Memory", zap.Stringer("client", req.RemoteAddr),
		zap.Uint32("rpc.xid", req.XID), zap.Uint32("rpc.program", req.Prog), zap.Uint32("rpc.procedure", req.Proc),
		zap.Int("octets", n), zap.Int64("limit", g.cfg.Memory))
	resp.Refuse(xdr.ReplyHeader{XID: req.XID, Accept: xdr.SystemErr})
	return true
}

// AddStats adds what the clients hold now.
func (g *Gate) AddStats(s *rpc.Stats) {
	now := g.Budget.Stats()
	s.Held, s.Waited, s.Waiting, s.Pulls = now.Held, now.Waited, now.Waiting, now.Pulls
	g.pool.mu.Lock()
	defer g.pool.mu.Unlock()
	s.PoolCredits, s.PoolHeld = g.pool.pool.Size(), g.pool.pool.Held()
}

// Stranger logs that a connection ended before it could carry calls, unless it was refused, which is
// logged already.
func (g *Gate) Stranger(client string, err error) {
	if _, refused := errors.AsType[*rpc.LimitError](err); err != nil && !refused {
		g.log.Info("transport: connection not established", zap.String("client", client), zap.Error(err))
	}
}

// Came logs that a client can call.
func (g *Gate) Came(client, network string) {
	g.log.Info("transport: client connected", zap.String("client", client), zap.String("transport", network))
}

// Went logs why a client that came at the time begun can call no more; nil means that it closed its connection.
func (g *Gate) Went(client, network string, begun time.Time, why error) {
	if why == nil {
		why = errPeerClosed
	}
	if e, ok := errors.AsType[*rpc.OpError](why); ok {
		why = e.Err // the address is in the line
	}
	g.log.Info("transport: client gone", zap.String("client", client), zap.String("transport", network),
		zap.NamedError("why", why), zap.Duration("after", time.Since(begun).Round(time.Microsecond)))
}

// Ended counts the connections that ended because of a slow peer. It returns err.
func (g *Gate) Ended(err error) error {
	// A start-up, a pull, half a message or a reply has taken too long.
	if e, ok := errors.AsType[*rpc.OpError](err); ok && e.Timeout() {
		g.ctr.Slow.Add(1)
	}
	return err
}

// Pool is a number of credits that connections share according to load. It is safe for concurrent use.
type Pool struct {
	mu   shared.Mutex
	pool credits.Pool
}

// Join adds a connection.
func (p *Pool) Join(s *credits.Share) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pool.Join(s)
}

// Leave takes its share back.
func (p *Pool) Leave(s *credits.Share) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Leave()
}

// Answer returns the grant for a reply.
func (p *Pool) Answer(s *credits.Share, asked uint32, unanswered int) uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.Answer(asked, unanswered)
}
