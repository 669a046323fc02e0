package execute

import (
	"github.com/stag-rdma/stag/internal/callid"
	"github.com/stag-rdma/stag/internal/list"
	"github.com/stag-rdma/stag/internal/peeraddr"
)

// cacheLimits restricts what a cache keeps. Running calls do not count: whoever runs them limits them.
type cacheLimits struct {
	Entries int   // replies in total
	PerAddr int   // replies to those who have one share (see peeraddr)
	Octets  int64 // sum of the sizes passed to Finish
	Time    int64 // ns from the end of a call until its reply is forgotten
}

// Entry is a call in the cache that runs, or has run.
type Entry struct {
	reply *SavedReply // when it has run

	key   callid.Call
	sum   callid.Sum // unknown while data of the call are at the client
	next  *Entry     // with the same key and another sum
	size  int64
	until int64
	done  bool

	// For the queue.
	all, mine list.Node[Entry] // its places there, and among those of its client
	of        *share           // nil: in no queue
	nth       uint64           // of all that were ever added
}

// cacheStats counts since newCache.
type cacheStats struct {
	Entries int    // replies kept now
	Octets  int64  // sum of their sizes
	Running int    // calls running now
	Evicted uint64 // replies dropped before their time
}

// cache is the state machine of the duplicate request cache: which calls run, which replies are kept, and for how long. It
// knows nothing about connections and transports, so that a call that comes again over TCP, RDMA or a new connection gets
// the reply to the first one. It has one owner, no lock and no clock: the owner passes the time, in nanoseconds since any
// moment.
type cache struct {
	lim     cacheLimits
	calls   map[callid.Call]*Entry // by key, the newest first
	running int
	replies *queue
	octets  int64
	evicted uint64
}

// newCache returns an empty cache.
func newCache(lim cacheLimits) *cache {
	return &cache{lim: lim, calls: make(map[callid.Call]*Entry), replies: newQueue()}
}

// verdict says what Begin has found.
type verdict uint8

// Answers of Begin.
const (
	// callNew: the call is new. The owner runs it and then calls Finish or Forget.
	callNew verdict = iota
	// callAnswered: the call has come before, and the entry has the reply.
	callAnswered
	// callRuns: the call of the entry runs, and may be the same. When it has ended, the owner asks again.
	callRuns
	// callUnread: it is known only by its data whether the call is new. The owner reads them and asks again.
	callUnread
	// callUnsure: the call is perhaps the one before, whose data nobody knows any more. It must neither run
	// nor get a reply.
	callUnsure
)

// maxAlike limits the replies to calls that differ in their content only.
const maxAlike = 8

// Begin enters a call that has come. The sum is unknown if data of it are still at the client.
func (c *cache) Begin(k callid.Call, sum callid.Sum, now int64) (*Entry, verdict) {
	c.expire(now) // here, because nothing else happens while no calls come
	head := c.calls[k]
	if head != nil && !sum.Known {
		return nil, callUnread
	}
	var last *Entry // the oldest reply
	alike := 0
	for e := head; e != nil; e = e.next {
		switch {
		case e.sum == sum && e.done:
			return e, callAnswered
		case !e.done && (e.sum == sum || !e.sum.Known):
			return e, callRuns
		case !e.sum.Known:
			return nil, callUnsure
		case e.done:
			last = e
			alike++
		}
	}
	// A client that reuses its XIDs at will fills no more than this with one key, and no search takes longer.
	if alike >= maxAlike {
		c.evicted++
		c.remove(last)
	}
	e := &Entry{key: k, sum: sum, next: c.calls[k]}
	c.calls[k] = e
	c.running++
	return e, callNew
}

// Running reports whether a call with this key is running.
func (c *cache) Running(k callid.Call) bool {
	for e := c.calls[k]; e != nil; e = e.next {
		if !e.done {
			return true
		}
	}
	return false
}

// Finish keeps v, which takes size octets, as the reply to a call that has run. If its sum is still
// unknown, the call is never answered again. If there are too many replies, older ones are dropped:
// first those of the same share, if it has more than that, and among these those of the client
// with the most replies.
//
// A reply larger than the whole cache is not kept.
func (c *cache) Finish(e *Entry, v *SavedReply, size, now int64) {
	c.expire(now)
	c.running--
	e.reply, e.done, e.size, e.until = v, true, size, now+c.lim.Time
	if size > c.lim.Octets || c.lim.Entries < 1 {
		c.unlink(e)
		c.evicted++
		return
	}
	c.octets += size
	share := peeraddr.ShareOf(e.key.Client.Addr)
	if o := e.key.Client.Owner; o != "" { // many users of this machine have one address, and any number of credentials
		share += " " + o
	}
	c.replies.Add(e, share)
	c.makeRoom(share)
}

// makeRoom drops replies until the limits hold, after one of a share was added.
func (c *cache) makeRoom(share string) {
	for { // of the share first, so that one client's excess costs no other one's reply
		over := c.replies.Excess(share, max(c.lim.PerAddr, 1))
		if over == nil && (c.replies.items.Len() > c.lim.Entries || c.octets > c.lim.Octets) {
			over = c.replies.items.First()
		}
		if over == nil {
			return
		}
		c.evicted++
		c.remove(over)
	}
}

// Forget ends a call that was not executed: if it comes again, it is new.
func (c *cache) Forget(e *Entry) {
	if !e.done {
		c.running--
		c.unlink(e)
	}
}

// cacheStats returns the counters.
func (c *cache) Stats() cacheStats {
	return cacheStats{Entries: c.replies.items.Len(), Octets: c.octets, Running: c.running, Evicted: c.evicted}
}

// expire drops the replies whose time is over.
func (c *cache) expire(now int64) {
	for e := c.replies.items.First(); e != nil && e.until <= now; e = c.replies.items.First() {
		c.remove(e)
	}
}

// remove drops a reply.
func (c *cache) remove(e *Entry) {
	c.unlink(e)
	c.octets -= e.size
	c.replies.Remove(e)
}

// unlink removes an entry from its list.
func (c *cache) unlink(e *Entry) {
	head := c.calls[e.key]
	if head == e {
		if e.next == nil {
			delete(c.calls, e.key)
		} else {
			c.calls[e.key] = e.next
		}
		return
	}
	for head.next != e {
		head = head.next
	}
	head.next = e.next
}
