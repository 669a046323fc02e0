package memory

import (
	"sync"
	"sync/atomic"

	"github.com/stag-rdma/stag/xdr"
)

// Sizes are the sizes of pooled buffers in octets: what file systems move at a time, with room for
// the headers before it. Larger buffers are made for one use.
var Sizes = [...]int{
	4 << 10, 16 << 10, 68 << 10, 132 << 10, 260 << 10, 516 << 10, 1<<20 + 64<<10, 2<<20 + 64<<10,
}

const classes = len(Sizes)

// maxIdle limits the unused octets in a pool. maxIdleSmall limits the number of unused buffers of the
// smallest size, which most calls use and maxIdle does not count.
const (
	maxIdle      = 32 << 20
	maxIdleSmall = 1024
)

// Buffer is pooled memory with one owner. Data has the capacity of its class.
type Buffer struct {
	Data []byte
	pool *Pool
	out  bool // has an owner; under mu of its class
}

// Release returns the memory. Releasing it twice panics: that is a bug in this package, which no peer
// can cause.
func (b *Buffer) Release() {
	if !b.pool.put(b) {
		panic("transport: buffer released twice")
	}
}

// Abandon drops a buffer that an engine may still use: nobody gets it again.
func (b *Buffer) Abandon() {
	c, _ := b.pool.class(len(b.Data))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live-- // nobody waits for it any more; the garbage collector gets it from the engine
}

// Pool is a bounded stock of buffers. It is safe for concurrent use.
type Pool struct {
	classes [classes]class
	idle    atomic.Int64 // octets in all classes but the first
}

// class keeps buffers of one size. The last one also counts those of no class.
type class struct {
	mu   sync.Mutex
	idle []*Buffer
	live int // buffers handed out, for tests
}

// Shared serves all connections of the process.
var Shared Pool

// class returns the class of buffers for n octets and their size, which is 0 if no class is large enough.
func (p *Pool) class(n int) (c *class, size int) {
	for i := range Sizes {
		if n <= Sizes[i] {
			return &p.classes[i], Sizes[i]
		}
	}
	return &p.classes[classes-1], 0
}

// Get returns a buffer whose Data hold at least n octets of unspecified content;
// len(Data) is the capacity.
func (p *Pool) Get(n int) *Buffer {
	c, size := p.class(n)
	c.mu.Lock()
	c.live++
	if k := len(c.idle); k > 0 && size > 0 { // the last one that was given back: the processor still has it in its caches
		b := c.idle[k-1]
		c.idle[k-1] = nil
		c.idle = c.idle[:k-1]
		b.out = true
		c.mu.Unlock()
		if size > Sizes[0] {
			p.idle.Add(-int64(size))
		}
		return b
	}
	c.mu.Unlock()
	return &Buffer{Data: make([]byte, max(n, size)), pool: p, out: true}
}

// put takes a buffer back, or drops it if there are enough or it has no class. It returns false if b has
// no owner.
func (p *Pool) put(b *Buffer) bool {
	n := len(b.Data)
	c, size := p.class(n)
	c.mu.Lock()
	owned := b.out
	if owned {
		b.out = false
		c.live--
		poison(b.Data) // under the lock: the next owner has not got it yet
		if n == size && p.keeps(c, n) {
			c.idle = append(c.idle, b)
		}
	}
	c.mu.Unlock()
	return owned
}

// keeps reports whether to keep one more buffer of n octets in c, and counts it.
func (p *Pool) keeps(c *class, n int) bool {
	if n == Sizes[0] {
		return len(c.idle) < maxIdleSmall
	}
	if p.idle.Add(int64(n)) > maxIdle { // added first: the classes have locks of their own
		p.idle.Add(-int64(n))
		return false
	}
	return true
}

// Live returns how many buffers are handed out.
func (p *Pool) Live() (n int) {
	for i := range p.classes {
		c := &p.classes[i]
		c.mu.Lock()
		n += c.live
		c.mu.Unlock()
	}
	return n
}

var zeroPad [4]byte

// Pad returns the XDR pad of item: 0 to 3 zero octets (RFC 4506 Section 3).
func Pad(item []byte) []byte { return zeroPad[:xdr.Pad(len(item))] }
