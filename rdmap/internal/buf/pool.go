package buf

import "sync"

// Pool is a bounded amount of memory for the octets of Sends, and the queue of those who wait for it.
type Pool struct {
	mu    sync.Mutex
	limit int
	used  int
	free  map[int][]Mem
	spare int      // octets in free
	queue []*Claim // of those who wait
	kept  int      // octets that those have put off
	open  map[*Arrival]struct{}
	begun uint64 // Sends that have begun
}

// Mem is memory of a Pool, or nil.
type Mem []byte

// poolSpare is how much memory a pool keeps for reuse, octets: 16 of the largest Sends of
// RPC-over-RDMA. Sends that arrive at once on more connections than that get fresh memory, which has to
// be cleared.
const poolSpare = 4 << 20

// NewPool returns a pool of limit octets.
func NewPool(limit int) *Pool {
	return &Pool{limit: limit, free: make(map[int][]Mem), open: make(map[*Arrival]struct{})}
}

// Load is what is taken from a pool, and by how many.
type Load struct {
	Octets     int
	Waiting    int // claims that wait for memory
	Unfinished int // Sends that hold memory and are not complete
	PutOff     int // octets counted by keep
}

// Load returns what is taken now.
func (p *Pool) Load() Load {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Load{Octets: p.used, Waiting: len(p.queue), Unfinished: len(p.open), PutOff: p.kept}
}

// Get takes n octets; ok is false if that would exceed the limit. A pool of which nothing is taken
// always gives out one buffer, so that a limit below RecvSize does not stop everything for good.
func (p *Pool) Get(n int) (b Mem, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.getLocked(n)
}

func (p *Pool) getLocked(n int) (b Mem, ok bool) {
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
	return make(Mem, n), true
}

// Put gives b back, and serves those who wait for memory.
func (p *Pool) Put(b Mem) {
	if b == nil {
		return
	}
	Poison(b[:cap(b)])
	p.mu.Lock()
	defer p.mu.Unlock()
	p.putLocked(b)
	p.serve()
}

func (p *Pool) putLocked(b Mem) {
	b = b[:cap(b)]
	p.used -= len(b)
	if p.spare+len(b) <= poolSpare {
		p.free[len(b)] = append(p.free[len(b)], b)
		p.spare += len(b)
	}
}
