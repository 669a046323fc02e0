package transport

import (
	"sync"

	"github.com/stag-rdma/stag/credits"
	"github.com/stag-rdma/stag/rdmap"
)

// CreditPool is a number of credits that connections share according to load: the connections of
// every server and listener whose Config names the pool. It limits the calls that all their clients
// together may have in flight, and so what the process may have to receive at one time. A
// client that fills its window gets more credits, up to Config.Credits, and an equal part when
// there are not enough for all. A client that does not fill its window gets fewer. Every client
// always has one credit, which does not count against the pool, so there may be more clients than
// credits.
//
// A client keeps its grant until its next call is answered: only a reply can lower a grant (RFC
// 8166 Section 3.3.1). Credits for RDMA_DONE (RFC 5666 Section 3.4) come on top.
//
// Make one with NewCreditPool. It is safe for concurrent use.
type CreditPool struct {
	mu   sync.Mutex
	pool credits.Pool
}

// NewCreditPool returns a pool of n credits, at least 1.
func NewCreditPool(n int) *CreditPool {
	return &CreditPool{pool: credits.NewPool(uint32(min(max(n, 1), 1<<31-1)))}
}

// CreditPoolStats is the current state of a pool.
type CreditPoolStats struct {
	// Size is the number of credits, Held how many of them clients have.
	Size, Held int
	// Connections is the number of connections that share the pool, Holders the number of those
	// with more than the one credit that each has anyway.
	Connections, Holders int
}

// Stats returns the current state of the pool.
func (p *CreditPool) Stats() CreditPoolStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return CreditPoolStats{
		Size: p.pool.Size(), Held: p.pool.Held(),
		Connections: p.pool.Members(), Holders: p.pool.Holders(),
	}
}

func (p *CreditPool) join(s *credits.Share) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pool.Join(s)
}

func (p *CreditPool) leave(s *credits.Share) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Leave()
}

func (p *CreditPool) answer(s *credits.Share, asked uint32, unanswered int) uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.Answer(asked, unanswered)
}

// creditShare is the part of a pool that a respConn has; respConn.mu guards it.
type creditShare struct {
	from  *CreditPool // see door.credits
	pool  *CreditPool // from, once joined; nil: it always grants Config.Credits
	part  credits.Share
	burst int // calls received since the latest replies were flushed
}

// firstCredits returns the largest grant of a new connection.
func (rc *respConn) firstCredits() uint32 {
	if rc.share.from != nil {
		return 1
	}
	return uint32(rc.cfg.Credits)
}

// joinPool joins the pool; HandleClose leaves it. The caller holds rc.mu.
func (rc *respConn) joinPool() {
	if p := rc.share.from; p != nil && !rc.gone {
		p.join(&rc.share.part)
		rc.share.pool = p
	}
}

// leavePool returns the share. The caller holds rc.mu.
func (rc *respConn) leavePool() {
	if s := &rc.share; s.pool != nil {
		s.pool.leave(&s.part)
	}
}

// seen counts a call that has come. Calls whose replies wait for the end of the burst are also in
// flight. The caller holds rc.mu.
func (rc *respConn) seen() {
	if s := &rc.share; s.pool != nil {
		s.burst++
		s.part.Seen(max(s.burst, rc.resp.Credits().Serving()))
	}
}

// limitGrant sets the largest grant for the reply to x, and posts the receives for it before it is
// granted. The caller holds rc.mu.
func (rc *respConn) limitGrant(x *exchange) {
	s := &rc.share
	if s.pool == nil {
		return
	}
	c := rc.resp.Credits()
	unanswered := c.Outstanding() + c.Serving()
	if rc.cfg.RFC5666 != nil {
		unanswered++ // the reply may still be withheld
	}
	c.SetLimit(s.pool.answer(&s.part, min(x.in.Header.Credit, uint32(rc.cfg.Credits)), unanswered))
	rc.postReceives()
}

// overCredit reports whether the client has far more calls in flight than it was granted. The
// caller holds rc.mu.
func (rc *respConn) overCredit() bool {
	most := 2*rc.cfg.Credits + 1
	if s := &rc.share; s.pool != nil {
		most = min(most, 2*s.part.Held()+credits.Slack)
	}
	return rc.resp.Credits().Serving() > most
}

// pooledUpcalls is respUpcalls for a connection whose grants follow its load.
type pooledUpcalls struct{ *respUpcalls }

var _ rdmap.IdleHandler = pooledUpcalls{}

// HandleIdle is called when all staged messages were handled: the replies are on their way.
func (h pooledUpcalls) HandleIdle(*rdmap.Conn) {
	rc := (*respConn)(h.respUpcalls)
	rc.mu.Lock()
	rc.share.burst = 0
	rc.mu.Unlock()
}

// upcalls returns the handler of the connection's events.
func (rc *respConn) upcalls() rdmap.Handler {
	if rc.share.from != nil {
		return pooledUpcalls{(*respUpcalls)(rc)}
	}
	return (*respUpcalls)(rc)
}
