package transport

import (
	"sync"
	"sync/atomic"
)

// budget limits the octets held for the calls of all connections and the number of calls being pulled,
// in total and for each client. A call that must wait first waits for its client's share, after calls of
// that client only, and then for the rest, first come, first served. The zero value has nothing to give.
// It is safe for concurrent use.
type budget struct {
	left   atomic.Int64 // octets; may be negative, see force. It changes under mu
	queued atomic.Int32 // calls that wait, in all queues

	mu      sync.Mutex
	spare   int64       // octets for calls that are alone on their connections
	pulls   int         // how many more calls may be pulled
	queue   []*exchange // calls that wait and have their client's share
	waited  uint64
	running int // calls that are being pulled
}

// share is what one client may still take.
type share struct {
	left  atomic.Int64 // octets; changes under budget.mu
	pulls int
	queue []*exchange // calls that wait for it
}

func (s *share) init(l ClientLimits) {
	s.left.Store(l.Memory)
	s.pulls = l.Pulls
}

// holding is what a call has taken from a budget. It changes under budget.mu.
type holding struct {
	octets int  // of budget.left
	spare  int  // of budget.spare
	slot   bool // one of budget.pulls
	pull   bool // one of share.pulls
	counts bool // in respConn.holding
}

func (h *holding) none() bool { return *h == holding{} }

// init sets the limits.
func (b *budget) init(cfg *Config) {
	b.left.Store(cfg.RequestMemory)
	b.spare, b.pulls = cfg.RequestMemory, cfg.MaxPulls
}

// has reports whether the client's share suffices for a call that needs n octets; n > 0 means that the
// call is to be pulled.
func (s *share) has(n int) bool { return s.left.Load() >= int64(n) && (n == 0 || s.pulls > 0) }

// take takes what x needs from the client's share.
func (s *share) take(x *exchange) {
	s.left.Add(-int64(x.want))
	if x.want > 0 {
		s.pulls--
		x.hold.pull = true
	}
}

// has reports whether there is enough, apart from the client's share.
func (b *budget) has(n int) bool { return b.left.Load() >= int64(n) && (n == 0 || b.pulls > 0) }

// grant gives x the rest of what it needs, or returns false. No call overtakes the queue, except that of
// a connection that holds nothing: it may use the spare octets and needs no place among the pulls, so
// that slow peers do not stop the others.
func (b *budget) grant(x *exchange, first bool) bool {
	n := x.want
	switch {
	case first && b.has(n):
		b.left.Add(-int64(n))
		x.hold.octets += n
		if n > 0 {
			b.pulls--
			x.hold.slot = true
		}
	case x.rc.holding == 0 && b.spare >= int64(n):
		b.spare -= int64(n)
		x.hold.spare += n
	default:
		return false
	}
	if n > 0 {
		b.running++
		x.counts()
	}
	return true
}

// counts notes that x holds something. The caller holds budget.mu.
func (x *exchange) counts() {
	if !x.hold.counts {
		x.hold.counts = true
		x.rc.holding++
	}
}

// take reserves n octets for x, or returns false.
func (b *budget) take(x *exchange, n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &x.rc.client.share
	x.want = n
	if len(s.queue) > 0 || !s.has(n) || !b.grant(x, len(b.queue) == 0) {
		return false
	}
	s.take(x)
	return true
}

// force reserves n octets even if there are too few, because the memory exists already.
func (b *budget) force(x *exchange, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left.Add(-int64(n))
	x.rc.client.share.left.Add(-int64(n))
	x.hold.octets += n
	x.counts()
}

// takeOrWait reserves n octets for x and returns true, or puts x into the queue:
// then x.then is called in another goroutine when they are there.
func (b *budget) takeOrWait(x *exchange, n int) bool {
	b.mu.Lock()
	s := &x.rc.client.share
	x.want = n
	s.queue = append(s.queue, x)
	b.queued.Add(1)
	list := b.ready(s)
	mine := false
	for i, y := range list {
		if y == x {
			mine, list[i] = true, nil
		}
	}
	if !mine {
		b.waited++
	}
	b.mu.Unlock()
	begin(list)
	return mine
}

// begin continues calls that have waited.
func begin(list []*exchange) {
	for _, x := range list {
		if x != nil {
			go x.then(x)
		}
	}
}

// ready removes from the queues the calls that can get what they wait for, after something was
// returned to s or to the budget. The caller holds b.mu.
func (b *budget) ready(s *share) (list []*exchange) {
	n := 0
	for ; n < len(s.queue) && s.has(s.queue[n].want); n++ {
		x := s.queue[n]
		s.take(x)
		if b.grant(x, len(b.queue) == 0) {
			list = append(list, x)
		} else {
			b.queue = append(b.queue, x)
			x.rc.queued++
		}
	}
	s.queue = dropFirst(s.queue, n)
	for n = 0; n < len(b.queue) && b.grant(b.queue[n], true); n++ {
		b.queue[n].rc.queued--
		list = append(list, b.queue[n])
	}
	b.queue = dropFirst(b.queue, n)
	b.queued.Add(-int32(len(list)))
	return list
}

// dropFirst removes the first n calls of a queue.
func dropFirst(q []*exchange, n int) []*exchange {
	if n == 0 {
		return q
	}
	k := copy(q, q[n:])
	clear(q[k:])
	return q[:k]
}

// give takes back everything that x holds, and wakes calls that wait for it.
func (b *budget) give(x *exchange) {
	b.mu.Lock()
	s := &x.rc.client.share
	b.left.Add(int64(x.hold.octets))
	b.spare += int64(x.hold.spare)
	s.left.Add(int64(x.hold.octets + x.hold.spare))
	b.endPull(x)
	if x.hold.counts {
		x.rc.holding--
	}
	spare := x.hold.spare > 0
	x.hold = holding{}
	list := b.rescue(x.rc, spare, b.ready(s))
	b.mu.Unlock()
	begin(list)
}

// rescue lets waiting calls of connections that hold nothing use the spare octets: rc may have become
// such a connection, or spare octets were returned. The caller holds b.mu.
func (b *budget) rescue(rc *respConn, spare bool, list []*exchange) []*exchange {
	if !spare && (rc.holding > 0 || rc.queued == 0) {
		return list
	}
	k := 0
	for _, x := range b.queue {
		if x.rc.holding == 0 && b.grant(x, false) {
			x.rc.queued--
			b.queued.Add(-1)
			list = append(list, x)
			continue
		}
		b.queue[k] = x
		k++
	}
	clear(b.queue[k:])
	b.queue = b.queue[:k]
	return list
}

// pulled notes that the chunks of x have arrived, so that others may be pulled.
func (b *budget) pulled(x *exchange) {
	b.mu.Lock()
	b.endPull(x)
	list := b.ready(&x.rc.client.share)
	b.mu.Unlock()
	begin(list)
}

// endPull releases the places of a pull, if x has them. The caller holds b.mu.
func (b *budget) endPull(x *exchange) {
	if !x.hold.pull {
		return
	}
	b.running--
	x.rc.client.share.pulls++
	if x.hold.slot {
		b.pulls++
	}
	x.hold.pull, x.hold.slot = false, false
}

// forget removes the calls of a connection from the queues and returns them.
func (b *budget) forget(rc *respConn) (list []*exchange) {
	if b.queued.Load() == 0 {
		return nil
	}
	b.mu.Lock()
	s := &rc.client.share
	s.queue, list = partition(s.queue, rc, nil)
	waiting := len(list)
	b.queue, list = partition(b.queue, rc, list)
	rc.queued = 0
	for _, x := range list[waiting:] { // they have their client's share
		s.left.Add(int64(x.want))
		if x.hold.pull {
			s.pulls++
			x.hold.pull = false
		}
	}
	b.queued.Add(-int32(len(list)))
	awake := b.ready(s)
	b.mu.Unlock()
	begin(awake)
	return list
}

// partition returns a queue without the calls of rc, and list with these calls appended.
func partition(q []*exchange, rc *respConn, list []*exchange) (others, mine []*exchange) {
	k := 0
	for _, x := range q {
		if x.rc == rc {
			list = append(list, x)
			continue
		}
		q[k] = x
		k++
	}
	clear(q[k:])
	return q[:k], list
}

// stats adds what is now held to s.
func (b *budget) stats(s *Stats) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.Waited, s.Waiting, s.Pulls = b.waited, int(b.queued.Load()), b.running
}
