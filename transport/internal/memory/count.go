package memory

import (
	"sync/atomic"

	"github.com/stag-rdma/stag/chunks"
)

// Counters are those of a client, or of all connections of a server. The names are those of rpc.Stats.
type Counters struct {
	Calls, Replies, Read, Written, Inline atomic.Uint64
	Accepted, Errors, Panics, Dropped     atomic.Uint64
	Invalidated, Takeovers                atomic.Uint64
	ReplyRead, Dones, Withheld, Padded    atomic.Uint64
	Conns, InFlight, Exposed              atomic.Int64
	ExposedOctets                         atomic.Int64 // now
	Deferred, Unpulled, Late, Unbound     atomic.Uint64
	NotAllowed, TooMany, Slow, Stuck      atomic.Uint64
	ExposedRefused                        atomic.Uint64
	Registered, Reused                    atomic.Uint64
	LentOctets                            atomic.Int64 // now
	TLSFailed, GSSRefused                 atomic.Uint64
	GSS                                   [3]atomic.Uint64 // by service, from gss.None

	Segments Segments

	Backward atomic.Pointer[Counters] // of backward calls sent; nil until the first
}

// OfBackward returns the counters of backward calls sent.
func (c *Counters) OfBackward() *Counters {
	if c.Backward.Load() == nil {
		c.Backward.CompareAndSwap(nil, new(Counters))
	}
	return c.Backward.Load()
}

// Segments count the segments that calls offer, in the same way at both ends.
type Segments struct {
	Read, Write, Reply, Long, Offered atomic.Uint64
}

// Add counts the lists of a call.
func (c *Segments) Add(l *chunks.Lists) {
	if len(l.Read) == 0 && len(l.Write) == 0 && !l.HasReply {
		return
	}
	c.Read.Add(uint64(len(l.Read)))
	if len(l.Read) > 0 && l.Read[0].Position == 0 {
		c.Long.Add(1)
	}
	for _, w := range l.Write {
		c.Write.Add(uint64(len(w)))
		c.Offered.Add(w.Room())
	}
	c.Reply.Add(uint64(len(l.Reply)))
	c.Offered.Add(l.Reply.Room())
}
