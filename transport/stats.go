package transport

import (
	"sync/atomic"

	"github.com/stag-rdma/stag/transport/rpc"
)

// counters is the live form of Stats.
type counters struct {
	calls, replies, read, written, inline atomic.Uint64
	accepted, errors, panics, dropped     atomic.Uint64
	invalidated, takeovers, immediates    atomic.Uint64
	replyRead, dones, withheld, padded    atomic.Uint64
	conns, inFlight, exposed              atomic.Int64
	exposedOctets                         atomic.Int64 // now
	deferred, unpulled, late, unbound     atomic.Uint64
	notAllowed, tooMany, slow, stuck      atomic.Uint64
	exposedRefused                        atomic.Uint64
	registered, reused                    atomic.Uint64
	lentOctets                            atomic.Int64 // now

	chunks chunkCounters

	backward atomic.Pointer[counters] // of backward calls sent; nil until the first
}

// ofBackward returns the counters of backward calls sent.
func (c *counters) ofBackward() *counters {
	if c.backward.Load() == nil {
		c.backward.CompareAndSwap(nil, new(counters))
	}
	return c.backward.Load()
}

// snapshot copies the counters. They are not read at the same instant.
func (c *counters) snapshot() rpc.Stats {
	s := rpc.Stats{
		Calls: c.calls.Load(), Replies: c.replies.Load(),
		OctetsRead: c.read.Load(), OctetsWritten: c.written.Load(), OctetsInline: c.inline.Load(),
		Connections: int(c.conns.Load()), Accepted: c.accepted.Load(),
		Errors: c.errors.Load(), Panics: c.panics.Load(), Dropped: c.dropped.Load(), Immediates: c.immediates.Load(),
		Invalidated: c.invalidated.Load(), Takeovers: c.takeovers.Load(),
		InFlight:      int(c.inFlight.Load()),
		OctetsExposed: c.replyRead.Load(), Dones: c.dones.Load(), Withheld: c.withheld.Load(),
		Exposed: int(c.exposed.Load()), Padded: c.padded.Load(),
		Deferred: c.deferred.Load(), Unpulled: c.unpulled.Load(), Late: c.late.Load(), Unbound: c.unbound.Load(),
		NotAllowed: c.notAllowed.Load(), TooMany: c.tooMany.Load(), SlowPeers: c.slow.Load(), Stuck: c.stuck.Load(),
		ExposedRefused: c.exposedRefused.Load(),
		Registered:     c.registered.Load(), Reused: c.reused.Load(), OctetsLent: c.lentOctets.Load(),
	}
	c.chunks.snapshot(&s)
	if b := c.backward.Load(); b != nil {
		s.BackwardCalls, s.BackwardReplies = b.calls.Load(), b.replies.Load()
	}
	return s
}
