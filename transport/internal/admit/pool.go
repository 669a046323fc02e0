package admit

import (
	"github.com/stag-rdma/stag/credits"
	"github.com/stag-rdma/stag/internal/shared"
)

// Pool is a number of credits that connections share according to load. It is safe for concurrent use.
type Pool struct {
	mu   shared.Mutex
	pool credits.Pool
}

// NewPool returns a pool of n credits, at least 1.
func NewPool(n int) *Pool {
	return &Pool{pool: credits.NewPool(uint32(min(max(n, 1), 1<<31-1)))}
}

// PoolStats says how many credits there are and clients have, how many connections share them, and how many have more
// than the one that each has anyway.
type PoolStats struct{ Size, Held, Connections, Holders int }

// Stats returns the current state.
func (p *Pool) Stats() PoolStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return PoolStats{Size: p.pool.Size(), Held: p.pool.Held(), Connections: p.pool.Members(), Holders: p.pool.Holders()}
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
