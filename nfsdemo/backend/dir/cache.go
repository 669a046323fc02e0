package dir

import (
	"container/list"
	"io"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/internal/shared"
)

// cache keeps open things by identity: at most max, unless more are in use, and none that was
// idle for ttl, most only half as long. It closes first what was not used again since it came, outside its
// lock. It is safe for concurrent use.
//
// Every call of a client gets and puts a thing or two, so all of them meet at the lock: a get marks its slot
// instead of moving it, excess looks at the marks (as the CLOCK of page caches), and a put takes no lock.
type cache[K comparable, V io.Closer] struct {
	max int
	ttl time.Duration // 0: forever

	full  atomic.Bool // there are more than max
	mu    shared.Mutex
	m     map[K]*slot[K, V]
	order list.List // of *slot[K, V], the last one goes first
	timer *time.Timer
}

// slot is a thing in use by refs callers. Who takes it out of the cache, or ends its last use after that,
// closes it: out is set before refs is looked at, and refs falls before out is looked at, so one of them sees
// both.
type slot[K comparable, V io.Closer] struct {
	v      V
	key    K
	refs   atomic.Int32 // grows with the lock only, and only while the slot is in the cache
	out    atomic.Bool
	closed atomic.Bool
	used   bool // since it came, or since excess has looked
	idle   bool // since the last sweep
	elem   *list.Element
}

// over reports whether the caller must close the thing.
func (s *slot[K, V]) over() bool {
	return s.out.Load() && s.refs.Load() == 0 && s.closed.CompareAndSwap(false, true)
}

// get returns the slot of k, in use until put, or nil.
func (c *cache[K, V]) get(k K) *slot[K, V] {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.m[k]
	if s != nil {
		s.refs.Add(1)
		s.used, s.idle = true, false
	}
	return s
}

// add takes v as the thing of k. If there is one already, it closes v, or the old one if replace.
func (c *cache[K, V]) add(k K, v V, replace bool) *slot[K, V] {
	var dead []V
	defer func() { closeAll(dead...) }() // without the lock
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.m[k]; s != nil && !replace {
		s.refs.Add(1)
		s.used, s.idle = true, false
		dead = append(dead, v)
		return s
	} else if s != nil {
		if v, ok := c.remove(s); ok {
			dead = append(dead, v)
		}
	}
	s := &slot[K, V]{v: v, key: k}
	s.refs.Store(1)
	if c.m == nil {
		c.m = make(map[K]*slot[K, V])
	}
	s.elem = c.order.PushFront(s)
	c.m[k] = s
	if c.timer == nil && c.ttl > 0 {
		c.timer = time.AfterFunc(c.ttl/2, c.sweep)
	}
	dead = append(dead, c.excess()...)
	return s
}

// put ends the use of a slot.
func (c *cache[K, V]) put(s *slot[K, V]) {
	s.refs.Add(-1)
	if s.over() {
		_ = s.v.Close()
	}
	if !c.full.Load() {
		return
	}
	var dead []V
	c.mu.With(func() { dead = c.excess() })
	closeAll(dead...)
}

// drop takes k out and closes its thing, as soon as nobody uses it.
func (c *cache[K, V]) drop(k K) {
	var dead V
	ok := false
	c.mu.With(func() {
		if s := c.m[k]; s != nil {
			dead, ok = c.remove(s)
		}
	})
	if ok {
		_ = dead.Close()
	}
}

// dropIf is drop for all things of which fn says so.
func (c *cache[K, V]) dropIf(fn func(K, V) bool) {
	var dead []V
	defer func() { closeAll(dead...) }()
	c.mu.Lock()
	defer c.mu.Unlock() // fn may panic
	for k, s := range c.m {
		if fn(k, s.v) {
			if v, ok := c.remove(s); ok {
				dead = append(dead, v)
			}
		}
	}
}

// remove takes a slot out, and returns its thing if the caller must close it now.
func (c *cache[K, V]) remove(s *slot[K, V]) (dead V, ok bool) {
	delete(c.m, s.key)
	c.order.Remove(s.elem)
	s.out.Store(true)
	return s.v, s.over()
}

// excess takes out what exceeds max. What was used since it came, or since the last look, gets a second chance.
func (c *cache[K, V]) excess() (dead []V) {
	for n := 2 * c.order.Len(); n > 0 && len(c.m) > c.max; n-- {
		s := c.order.Back().Value.(*slot[K, V])
		if s.used || s.refs.Load() > 0 {
			s.used = false
			c.order.MoveToFront(s.elem)
			continue
		}
		if v, ok := c.remove(s); ok {
			dead = append(dead, v)
		}
	}
	c.full.Store(len(c.m) > c.max)
	return dead
}

// giveWay closes half of the things that nobody uses, those first that excess would, and returns how many.
func (c *cache[K, V]) giveWay() int {
	var dead []V
	defer func() { closeAll(dead...) }() // without the lock
	c.mu.Lock()
	defer c.mu.Unlock()
	for e, most := c.order.Back(), (len(c.m)+1)/2; e != nil && len(dead) < most; {
		s := e.Value.(*slot[K, V])
		e = e.Prev()
		if s.refs.Load() > 0 {
			continue
		}
		if v, ok := c.remove(s); ok {
			dead = append(dead, v)
		}
	}
	return len(dead)
}

// sweep closes what nobody has used since the last one, and runs again later while anything is left. A mark
// instead of a time: the clock was a twentieth of a GETATTR.
func (c *cache[K, V]) sweep() {
	var dead []V
	defer func() { closeAll(dead...) }() // without the lock
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := c.order.Back(); e != nil; {
		s := e.Value.(*slot[K, V])
		e = e.Prev()
		if s.refs.Load() > 0 {
			continue
		}
		if s.idle {
			if v, ok := c.remove(s); ok {
				dead = append(dead, v)
			}
		}
		s.idle = true
	}
	if c.timer != nil {
		if len(c.m) > 0 {
			c.timer.Reset(c.ttl / 2)
		} else {
			c.timer = nil
		}
	}
}

// clear closes everything, things in use as soon as nobody uses them.
func (c *cache[K, V]) clear() {
	var dead []V
	defer func() { closeAll(dead...) }() // without the lock
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	for _, s := range c.m {
		if v, ok := c.remove(s); ok {
			dead = append(dead, v)
		}
	}
}

func closeAll[V io.Closer](dead ...V) {
	for _, v := range dead {
		_ = v.Close() // Close itself reports what it finds
	}
}
