package rdmap

import "sync"

// Pool is a bounded amount of memory that connections share for the octets of Sends that cannot
// be lent from the reader's staging buffer: Sends of several segments while they arrive, and
// messages queued for Recv. A posted receive is a reservation, not a buffer; memory is taken when
// octets arrive. If the pool is empty, only queue 0 of the connection that asked stalls, until
// memory comes back. Waiting connections get memory in the order in which they asked. A peer that
// begins a Send and does not finish it keeps the memory only until another connection needs it; see
// Config.StallTimeout.
//
// A Pool is safe for concurrent use.
type Pool struct {
	mu    sync.Mutex
	limit int
	used  int
	free  map[int][]poolBuf
	spare int      // octets in free
	queue []*claim // of stalled connections
	kept  int      // octets that those have put off
	open  map[*arrival]struct{}
}

// poolBuf is memory of a Pool, or nil.
type poolBuf []byte

// DefaultPool is used by connections whose Config names none: 64 MiB.
var DefaultPool = NewPool(64 << 20)

// poolSpare is how much memory a pool keeps for reuse, octets: 16 of the largest Sends of
// RPC-over-RDMA. Sends that arrive at once on more connections than that get fresh memory, which has to
// be cleared.
const poolSpare = 4 << 20

// NewPool returns a pool of limit octets.
func NewPool(limit int) *Pool {
	return &Pool{limit: limit, free: make(map[int][]poolBuf), open: make(map[*arrival]struct{})}
}

// Used returns the number of octets now taken from the pool.
func (p *Pool) Used() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

// get takes n octets; ok is false if that would exceed the limit. A pool of which nothing is taken
// always gives out one buffer, so that a limit below RecvSize does not stop everything for good.
func (p *Pool) get(n int) (b poolBuf, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.getLocked(n)
}

func (p *Pool) getLocked(n int) (b poolBuf, ok bool) {
	if p.used > 0 && p.used+n > p.limit {
		return nil, false
	}
	p.used += n
	if f := p.free[n]; len(f) > 0 {
		b = f[len(f)-1]
		p.free[n] = f[:len(f)-1]
		p.spare -= n
		return b, true
	}
	return make(poolBuf, n), true
}

// put gives b back, and serves those who wait for memory.
func (p *Pool) put(b poolBuf) {
	if b == nil {
		return
	}
	poison(b[:cap(b)])
	p.mu.Lock()
	defer p.mu.Unlock()
	p.putLocked(b)
	p.serve()
}

func (p *Pool) putLocked(b poolBuf) {
	b = b[:cap(b)]
	p.used -= len(b)
	if p.spare+len(b) <= poolSpare {
		p.free[len(b)] = append(p.free[len(b)], b)
		p.spare += len(b)
	}
}
