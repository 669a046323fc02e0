package transport

import "github.com/stag-rdma/stag/transport/internal/admit"

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
	pool *admit.Pool
	n    int // as asked for
}

// NewCreditPool returns a pool of n credits, at least 1: [Config.Check] refuses one with less.
func NewCreditPool(n int) *CreditPool {
	return &CreditPool{admit.NewPool(n), n}
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
func (p *CreditPool) Stats() CreditPoolStats { return CreditPoolStats(p.pool.Stats()) }
