package transport

import (
	"sync"
	"sync/atomic"
)

// budget bounds the octets held for the calls of all connections. Who does not get
// his share at once waits, first come first served. The zero value has nothing to
// give. It is safe for concurrent use.
type budget struct {
	left   atomic.Int64 // may be negative, see force
	queued atomic.Int32 // len(queue)

	mu    sync.Mutex
	queue []*exchange
}

// take reserves n octets, or returns false.
func (b *budget) take(n int) bool {
	for {
		left := b.left.Load()
		if left < int64(n) {
			return false
		}
		if b.left.CompareAndSwap(left, left-int64(n)) {
			return true
		}
	}
}

// force reserves n octets whether they are there or not: the memory exists already.
func (b *budget) force(n int) { b.left.Add(-int64(n)) }

// takeOrWait reserves n octets for x and returns true, or puts x into the queue:
// then x.then is called in another goroutine when they are there.
func (b *budget) takeOrWait(x *exchange, n int) bool {
	if b.queued.Load() == 0 && b.take(n) {
		x.taken += n
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	x.want = n
	b.queue = append(b.queue, x)
	b.queued.Store(int32(len(b.queue)))
	// give looks at queued after it has added; so look at left after queued is set.
	mine := false
	for _, y := range b.ready() {
		if y == x {
			mine = true
			continue
		}
		go y.then(y)
	}
	return mine
}

// ready takes those off the queue whose octets are there. b.mu is held.
func (b *budget) ready() (list []*exchange) {
	n := 0
	for n < len(b.queue) && b.take(b.queue[n].want) {
		x := b.queue[n]
		x.taken += x.want
		list = append(list, x)
		n++
	}
	b.keep(b.queue[n:])
	return list
}

// keep makes list, a part of the queue, the queue. b.mu is held.
func (b *budget) keep(list []*exchange) {
	k := copy(b.queue, list)
	clear(b.queue[k:])
	b.queue = b.queue[:k]
	b.queued.Store(int32(k))
}

// give returns n octets and wakes who waits for them.
func (b *budget) give(n int) {
	b.left.Add(int64(n))
	if b.queued.Load() == 0 {
		return
	}
	b.mu.Lock()
	list := b.ready()
	b.mu.Unlock()
	for _, x := range list {
		go x.then(x)
	}
}

// forget takes the calls of a connection off the queue and returns them.
func (b *budget) forget(rc *respConn) (list []*exchange) {
	if b.queued.Load() == 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var others []*exchange
	for _, x := range b.queue {
		if x.rc == rc {
			list = append(list, x)
		} else {
			others = append(others, x)
		}
	}
	b.keep(others)
	return list
}
