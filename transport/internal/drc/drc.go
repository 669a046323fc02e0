// Package drc is the duplicate request cache as a machine: which calls run, which
// replies are kept and for how long. It knows nothing of connections or of how a
// message travels, so that a call that comes again over TCP, RDMA or a new connection
// finds the reply of the first time. It has one owner, no lock and no clock: the owner
// says what time it is, in nanoseconds since any moment.
package drc

import "github.com/stag-rdma/stag/internal/fair"

// Client is who calls, as far as a server can tell.
type Client struct {
	// Addr is the address without the port, which changes with every connection. One
	// address has a share of the cache, see Limits.PerAddr.
	Addr string
	// Flavor, Machine and UID are from the credential: clients behind one address have
	// different names (AUTH_SYS), and XIDs of their own. Within the share of an address they
	// are equals.
	Flavor, UID uint32
	Machine     string
}

// Key tells calls apart. Two calls with one key are the same call.
type Key struct {
	Client                Client
	XID, Prog, Vers, Proc uint32
	// Len and Sum are the length in octets and the checksum of the arguments: a client
	// that has forgotten which XIDs it used seldom uses one for the same arguments.
	Len int
	Sum uint64
}

// Limits bounds what a Cache keeps. Calls that run are not counted: they are bounded
// by whoever runs them.
type Limits struct {
	Entries int   // replies in all
	PerAddr int   // replies to one address
	Octets  int64 // sum of the sizes said to Finish
	Time    int64 // ns from the end of a call until its reply is forgotten
}

// Entry is a call that runs or has run.
type Entry[V any] struct {
	// Value is the owner's.
	Value V

	key   Key
	size  int64
	until int64
	done  bool
	place fair.Item[Client, *Entry[V]]
}

// Done says whether the call has ended: Value is then what Finish was given.
func (e *Entry[V]) Done() bool { return e.done }

// Stats counts since New.
type Stats struct {
	Entries int    // replies kept now
	Octets  int64  // their sizes
	Running int    // calls that run now
	Evicted uint64 // replies dropped before their time
}

// Cache is a duplicate request cache. Not safe for concurrent use.
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

// Begin says that a call has come. If it is new, its entry is returned with true: the
// owner runs it and then calls Finish or Forget. Else it came before, and the entry
// says whether it is Done.
func (c *Cache[V]) Begin(k Key, now int64) (e *Entry[V], first bool) {
	c.expire(now)
	if e := c.calls[k]; e != nil {
		return e, false
	}
	e = &Entry[V]{key: k}
	c.calls[k] = e
	return e, true
}

// Running says whether the call with this key runs now.
func (c *Cache[V]) Running(k Key) bool {
	e := c.calls[k]
	return e != nil && !e.done
}

// Finish keeps the reply of a call that ran: v, which takes size octets. Older replies
// make room; those of the same address first, when it has more than its share, and there
// those of the client that has most.
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

// Forget ends a call that was not executed: when it comes again it is new.
func (c *Cache[V]) Forget(e *Entry[V]) {
	if !e.done {
		delete(c.calls, e.key)
	}
}

// Stats returns the counters.
func (c *Cache[V]) Stats() Stats {
	return Stats{Entries: c.replies.Len(), Octets: c.octets, Running: len(c.calls) - c.replies.Len(), Evicted: c.evicted}
}

// expire drops what is out of time.
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
