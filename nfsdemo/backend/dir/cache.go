package dir

import (
	"container/list"
	"io"
	"sync"
	"time"
)

// cache keeps open things by identity: at most max, unless more are in use, and none that was
// idle for ttl, most only half as long. It closes the least recently used first, outside its lock. It is
// safe for concurrent use.
type cache[K comparable, V io.Closer] struct {
	max int
	ttl time.Duration // 0: forever

	mu    sync.Mutex
	m     map[K]*slot[K, V]
	order list.List // of *slot[K, V], most recent first
	timer *time.Timer
}

// slot is a thing in use by refs callers.
type slot[K comparable, V io.Closer] struct {
	v    V
	key  K
	refs int
	idle bool          // since the last sweep
	elem *list.Element // nil once out of the cache
}

// get returns the slot of k, in use until put, or nil.
func (c *cache[K, V]) get(k K) *slot[K, V] {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.m[k]
	if s != nil {
		s.refs++
		s.idle = false
		c.order.MoveToFront(s.elem)
	}
	return s
}

// add takes v as the thing of k. If there is one already, it closes v, or the old one if replace.
func (c *cache[K, V]) add(k K, v V, replace bool) *slot[K, V] {
	c.mu.Lock()
	if s := c.m[k]; s != nil && !replace {
		s.refs++
		c.mu.Unlock()
		_ = v.Close()
		return s
	} else if s != nil {
		if dead, ok := c.remove(s); ok {
			defer closeAll(dead)
		}
	}
	s := &slot[K, V]{v: v, key: k, refs: 1}
	if c.m == nil {
		c.m = make(map[K]*slot[K, V])
	}
	s.elem = c.order.PushFront(s)
	c.m[k] = s
	dead := c.excess()
	c.mu.Unlock()
	closeAll(dead...)
	return s
}

// put ends the use of a slot.
func (c *cache[K, V]) put(s *slot[K, V]) {
	c.mu.Lock()
	s.refs--
	if s.refs == 0 && s.elem == nil {
		c.mu.Unlock()
		_ = s.v.Close()
		return
	}
	if c.timer == nil && c.ttl > 0 {
		c.timer = time.AfterFunc(c.ttl/2, c.sweep)
	}
	dead := c.excess()
	c.mu.Unlock()
	closeAll(dead...)
}

// drop takes k out and closes its thing, as soon as nobody uses it.
func (c *cache[K, V]) drop(k K) {
	c.mu.Lock()
	var dead V
	ok := false
	if s := c.m[k]; s != nil {
		dead, ok = c.remove(s)
	}
	c.mu.Unlock()
	if ok {
		_ = dead.Close()
	}
}

// dropIf is drop for all things of which fn says so.
func (c *cache[K, V]) dropIf(fn func(K, V) bool) {
	c.mu.Lock()
	var dead []V
	for k, s := range c.m {
		if fn(k, s.v) {
			if v, ok := c.remove(s); ok {
				dead = append(dead, v)
			}
		}
	}
	c.mu.Unlock()
	closeAll(dead...)
}

// remove takes a slot out, and returns its thing if the caller must close it now.
func (c *cache[K, V]) remove(s *slot[K, V]) (dead V, ok bool) {
	delete(c.m, s.key)
	c.order.Remove(s.elem)
	s.elem = nil
	return s.v, s.refs == 0
}

// excess takes out what exceeds max, oldest first.
func (c *cache[K, V]) excess() (dead []V) {
	for e := c.order.Back(); e != nil && len(c.m) > c.max; {
		s := e.Value.(*slot[K, V])
		e = e.Prev()
		if s.refs == 0 {
			v, _ := c.remove(s)
			dead = append(dead, v)
		}
	}
	return dead
}

// sweep closes what nobody has used since the last one, and runs again later while anything is left. A flag per
// use instead of a time: the clock was a twentieth of a GETATTR, under a lock that all calls take.
func (c *cache[K, V]) sweep() {
	c.mu.Lock()
	var dead []V
	for e := c.order.Back(); e != nil; {
		s := e.Value.(*slot[K, V])
		e = e.Prev()
		if s.refs > 0 {
			continue
		}
		if s.idle {
			v, _ := c.remove(s)
			dead = append(dead, v)
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
	c.mu.Unlock()
	closeAll(dead...)
}

// clear closes everything, things in use as soon as nobody uses them.
func (c *cache[K, V]) clear() {
	c.mu.Lock()
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	var dead []V
	for _, s := range c.m {
		if v, ok := c.remove(s); ok {
			dead = append(dead, v)
		}
	}
	c.mu.Unlock()
	closeAll(dead...)
}

func closeAll[V io.Closer](dead ...V) {
	for _, v := range dead {
		_ = v.Close() // Close itself reports what it finds
	}
}
