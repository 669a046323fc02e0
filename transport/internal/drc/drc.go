// Package drc is the state machine of the duplicate request cache: which calls run, which replies
// are kept, and for how long. It knows nothing about connections and transports, so that a call
// that comes again over TCP, RDMA or a new connection gets the reply to the first one. It has one
// owner, no lock and no clock: the owner passes the time, in nanoseconds since any moment.
package drc

import "github.com/stag-rdma/stag/internal/fair"

// Client identifies a caller, as far as a server can tell.
type Client struct {
	// Addr is the address without the port, which changes with every connection. One
	// address has a share of the cache, see Limits.PerAddr.
	Addr string
	// Flavor, Machine and UID are from the credential: clients behind one address have
	// different names (AUTH_SYS) and their own XIDs. They divide the share of the address
	// equally.
	Flavor, UID uint32
	Machine     string
}

// Key identifies a call. Two calls with the same key are the same call.
type Key struct {
	Client                Client
	XID, Prog, Vers, Proc uint32
	// Len and Sum are the length in octets and the checksum of the arguments: a client that has
	// forgotten which XIDs it has used seldom uses one again for the same arguments.
	Len int
	Sum uint64
}

// Limits restricts what a Cache keeps. Running calls do not count: whoever runs them limits them.
type Limits struct {
	Entries int   // replies in total
	PerAddr int   // replies to one address
	Octets  int64 // sum of the sizes passed to Finish
	Time    int64 // ns from the end of a call until its reply is forgotten
}

// Entry is a call that is running or has run.
type Entry[V any] struct {
	// Value belongs to the owner.
	Value V

	key   Key
	size  int64
	until int64
	done  bool
	place fair.Item[Client, *Entry[V]]
}

// Done reports whether the call has ended; Value is then the one passed to Finish.
func (e *Entry[V]) Done() bool { return e.done }

// Stats counts since New.
type Stats struct {
	Entries int    // replies kept now
	Octets  int64  // sum of their sizes
	Running int    // calls running now
	Evicted uint64 // replies dropped before their time
}

// Cache is a duplicate request cache. It is not safe for concurrent use.
type Cache[V any] struct {
	lim     Limits
	calls   map[Key]*Entry[V]
	replies *fair.Queue[Client, *Entry[V]]
	octets  int64
	evicted uint64
}

// New returns an empty cache.
func New[V any](lim Limits) *Cache[V] {
	return &Cache[V]{lim: lim, calls: make(map[Key]*Entry[V]), replies: fair.New[Client, *Entry[V]]()}
}

// Begin enters a call that has come. For a new call first is true: the owner runs it and then calls
// Finish or Forget. Otherwise the call has come before, and the entry says whether it is Done.
func (c *Cache[V]) Begin(k Key, now int64) (e *Entry[V], first bool) {
	c.expire(now)
	if e := c.calls[k]; e != nil {
		return e, false
	}
	e = &Entry[V]{key: k}
	c.calls[k] = e
	return e, true
}

// Running reports whether the call with this key is running.
func (c *Cache[V]) Running(k Key) bool {
	e := c.calls[k]
	return e != nil && !e.done
}

// Finish keeps v, which takes size octets, as the reply to a call that has run. If there are too
// many replies, older ones are dropped: first those of the same address, if it has more than its
// share, and among these those of the client with the most replies.
//
// A reply larger than the whole cache is not kept.
func (c *Cache[V]) Finish(e *Entry[V], v V, size, now int64) {
	c.expire(now)
	e.Value, e.done, e.size, e.until = v, true, size, now+c.lim.Time
	if size > c.lim.Octets || c.lim.Entries < 1 {
		delete(c.calls, e.key)
		c.evicted++
		return
	}
	c.octets += size
	e.place.Value = e
	c.replies.Add(&e.place, e.key.Client, e.key.Client.Addr)
	c.makeRoom(e.key.Client.Addr)
}

// makeRoom drops replies until the limits hold, after one to addr was added.
func (c *Cache[V]) makeRoom(addr string) {
	for {
		over := c.replies.Excess(addr, max(c.lim.PerAddr, 1))
		if over == nil && (c.replies.Len() > c.lim.Entries || c.octets > c.lim.Octets) {
			over = c.replies.Oldest()
		}
		if over == nil {
			return
		}
		c.evicted++
		c.remove(over.Value)
	}
}

// Forget ends a call that was not executed: if it comes again, it is new.
func (c *Cache[V]) Forget(e *Entry[V]) {
	if !e.done {
		delete(c.calls, e.key)
	}
}

// Stats returns the counters.
func (c *Cache[V]) Stats() Stats {
	return Stats{Entries: c.replies.Len(), Octets: c.octets, Running: len(c.calls) - c.replies.Len(), Evicted: c.evicted}
}

// expire drops the replies whose time is over.
func (c *Cache[V]) expire(now int64) {
	for e := c.replies.Oldest(); e != nil && e.Value.until <= now; e = c.replies.Oldest() {
		c.remove(e.Value)
	}
}

// remove drops a reply.
func (c *Cache[V]) remove(e *Entry[V]) {
	delete(c.calls, e.key)
	c.octets -= e.size
	c.replies.Remove(&e.place)
}
