package rdmap

import (
	"sync"
	"time"
)

// Pool is a bounded amount of memory that connections share for the octets of
// Sends that cannot be lent from the reader's staging: Sends of several segments
// while they arrive, and messages queued for Recv. A posted receive is a
// reservation, not a buffer; memory is taken when octets arrive. When the pool is
// empty queue 0 of the connection that asked stalls, nothing else, until memory
// comes back. A peer that begins a Send and does not end it keeps its memory only as
// long as nobody else needs it: see Config.StallTimeout.
//
// A Pool is safe for concurrent use.
type Pool struct {
	mu      sync.Mutex
	limit   int
	used    int
	free    map[int][]poolBuf
	spare   int                // octets in free
	waiting map[*Conn]struct{} // stalled connections
	kept    int                // octets that they put off
	open    map[*arrival]struct{}
}

// arrival is a Send of several segments: while it has memory of a Pool and is not
// whole, the Pool knows it.
type arrival struct {
	open    bool // the receiver's
	since   time.Time
	overdue func(began time.Time) // it is in the way of others
}

// poolBuf is memory of a Pool; nil is none.
type poolBuf []byte

// DefaultPool is used by connections whose Config names none: 64 MiB.
var DefaultPool = NewPool(64 << 20)

// poolSpare is how much memory a pool keeps for reuse, octets.
const poolSpare = 1 << 20

// NewPool returns a pool of limit octets.
func NewPool(limit int) *Pool {
	return &Pool{limit: limit, free: make(map[int][]poolBuf), open: make(map[*arrival]struct{})}
}

// Used returns the octets taken from the pool now.
func (p *Pool) Used() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

// get takes n octets; ok is false when the limit is reached. One buffer is always
// given out, whatever its size, so that a limit below RecvSize does not stop
// everything for good.
func (p *Pool) get(n int) (b poolBuf, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
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

// put gives b back and wakes the connections that wait for memory.
func (p *Pool) put(b poolBuf) {
	if b == nil {
		return
	}
	b = b[:cap(b)]
	poison(b)
	p.mu.Lock()
	p.used -= len(b)
	if p.spare+len(b) <= poolSpare {
		p.free[len(b)] = append(p.free[len(b)], b)
		p.spare += len(b)
	}
	wake := p.waiting
	p.waiting = nil
	p.mu.Unlock()
	for c := range wake {
		go c.unstall()
	}
}

// wait has c.unstall called when memory comes back.
func (p *Pool) wait(c *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil {
		p.waiting = make(map[*Conn]struct{})
	}
	p.waiting[c] = struct{}{}
}

// begin says that a Send has memory and is not whole yet.
func (p *Pool) begin(a *arrival) {
	a.open = true
	p.mu.Lock()
	defer p.mu.Unlock()
	a.since = time.Now()
	p.open[a] = struct{}{}
}

// ended says that it is whole, or never will be.
func (p *Pool) ended(a *arrival) {
	if !a.open {
		return
	}
	a.open = false
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, a)
}

// holds reports whether a Send that began at the given time is not whole yet.
func (p *Pool) holds(a *arrival, began time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, open := p.open[a]
	return open && a.since.Equal(began)
}

// reclaim has every Send ended that began no later than t and is not whole yet. The
// memory comes back as soon as their connections are through with it.
func (p *Pool) reclaim(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for a := range p.open {
		if !a.since.After(t) {
			go a.overdue(a.since)
		}
	}
}

// keep counts n octets that a stalled connection is to put off. It reports false when
// all connections together have put off as much as the pool holds, or as one may; must
// overrides that.
func (p *Pool) keep(n int, must bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !must && p.kept+n > max(p.limit, maxPutOff) {
		return false
	}
	p.kept += n
	return true
}

// forget ends what keep began.
func (p *Pool) forget(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept -= n
}
