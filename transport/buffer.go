package transport

import (
	"sync"
	"sync/atomic"
)

// classSizes are the sizes of pooled buffers, in octets: what file systems move at a
// time, with room for the headers before it. Larger buffers are made for one use.
var classSizes = [...]int{
	4 << 10, 16 << 10, 68 << 10, 132 << 10, 260 << 10, 516 << 10, 1<<20 + 64<<10, 2<<20 + 64<<10,
}

const classes = len(classSizes)

// maxIdle bounds the octets a pool keeps unused.
const maxIdle = 32 << 20

// buffer is pooled memory with one owner. data has the capacity of its class.
type buffer struct {
	data []byte
	pool *pool
	out  atomic.Bool // has an owner
}

// release gives the memory back. Releasing it again panics: that is a mistake of this
// package, never of a peer.
func (b *buffer) release() {
	if !b.out.CompareAndSwap(true, false) {
		panic("transport: buffer released twice")
	}
	b.pool.put(b)
}

// abandon drops a buffer that an engine may still use: nobody gets it again.
func (b *buffer) abandon() { b.pool.live.Add(-1) }

// pool is a bounded stock of buffers. It is safe for concurrent use.
type pool struct {
	classes [classes]class
	idle    atomic.Int64 // octets in all classes
	live    atomic.Int64 // buffers handed out, for tests
}

type class struct {
	mu   sync.Mutex
	idle []*buffer
}

// shared serves all connections of the process.
var shared pool

// classOf returns the class whose buffers hold n octets, or -1 if none is so large.
func classOf(n int) int {
	for i, size := range classSizes {
		if n <= size {
			return i
		}
	}
	return -1
}

// get returns a buffer whose data hold at least n octets of unspecified content;
// len(data) is the capacity.
func (p *pool) get(n int) *buffer {
	p.live.Add(1)
	i := classOf(n)
	if i < 0 {
		return p.fresh(n)
	}
	c := &p.classes[i]
	c.mu.Lock()
	if k := len(c.idle); k > 0 {
		b := c.idle[k-1]
		c.idle[k-1] = nil
		c.idle = c.idle[:k-1]
		c.mu.Unlock()
		p.idle.Add(-int64(len(b.data)))
		b.out.Store(true)
		return b
	}
	c.mu.Unlock()
	return p.fresh(classSizes[i])
}

// fresh makes a buffer of n octets.
func (p *pool) fresh(n int) *buffer {
	b := &buffer{data: make([]byte, n), pool: p}
	b.out.Store(true)
	return b
}

// put takes a buffer back, or drops it if there is enough or it has no class.
func (p *pool) put(b *buffer) {
	p.live.Add(-1)
	poison(b.data)
	n := len(b.data)
	i := classOf(n)
	if i < 0 || n != classSizes[i] {
		return
	}
	if p.idle.Add(int64(n)) > maxIdle {
		p.idle.Add(-int64(n))
		return
	}
	c := &p.classes[i]
	c.mu.Lock()
	c.idle = append(c.idle, b)
	c.mu.Unlock()
}

// adopt makes a buffer of memory that grew elsewhere.
func (p *pool) adopt(mem []byte) *buffer {
	p.live.Add(1)
	b := &buffer{data: mem[:cap(mem)], pool: p}
	b.out.Store(true)
	return b
}
