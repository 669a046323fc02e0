package calls

import (
	"sync/atomic"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/transport/rpc"
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

	backward atomic.Pointer[Counters] // of backward calls sent; nil until the first
}

// OfBackward returns the counters of backward calls sent.
func (c *Counters) OfBackward() *Counters {
	if c.backward.Load() == nil {
		c.backward.CompareAndSwap(nil, new(Counters))
	}
	return c.backward.Load()
}

// Snapshot copies the counters. They are not read at the same instant.
func (c *Counters) Snapshot() rpc.Stats {
	s := rpc.Stats{
		CallStats: rpc.CallStats{
			Calls: c.Calls.Load(), Replies: c.Replies.Load(), InFlight: int(c.InFlight.Load()),
			Errors: c.Errors.Load(), Unbound: c.Unbound.Load(), Dropped: c.Dropped.Load(), Panics: c.Panics.Load(),
			Takeovers: c.Takeovers.Load(), Late: c.Late.Load(), OctetsInline: c.Inline.Load(), Padded: c.Padded.Load(),
		},
		ChunkStats: rpc.ChunkStats{
			OctetsRead: c.Read.Load(), OctetsWritten: c.Written.Load(), Deferred: c.Deferred.Load(), Unpulled: c.Unpulled.Load(),
			Registered: c.Registered.Load(), Reused: c.Reused.Load(), Invalidated: c.Invalidated.Load(), OctetsLent: c.LentOctets.Load(),
		},
		ExposedStats: rpc.ExposedStats{
			OctetsExposed: c.ReplyRead.Load(), Dones: c.Dones.Load(), Withheld: c.Withheld.Load(),
			ExposedRefused: c.ExposedRefused.Load(), Exposed: int(c.Exposed.Load()),
		},
		ConnStats: rpc.ConnStats{
			Connections: int(c.Conns.Load()), Accepted: c.Accepted.Load(),
			NotAllowed: c.NotAllowed.Load(), TooMany: c.TooMany.Load(), SlowPeers: c.Slow.Load(), Stuck: c.Stuck.Load(),
		},
		SecurityStats: rpc.SecurityStats{
			TLSFailed: c.TLSFailed.Load(), GSSRefused: c.GSSRefused.Load(),
			GSSNone: c.GSS[0].Load(), GSSIntegrity: c.GSS[1].Load(), GSSPrivacy: c.GSS[2].Load(),
		},
	}
	c.Segments.snapshot(&s)
	if b := c.backward.Load(); b != nil {
		s.BackwardCalls, s.BackwardReplies = b.Calls.Load(), b.Replies.Load()
	}
	return s
}

// Segments count the segments that calls offer, in the same way at both ends.
type Segments struct {
	read, write, reply, long, offered atomic.Uint64
}

// Add counts the lists of a call.
func (c *Segments) Add(l *chunks.Lists) {
	if len(l.Read) == 0 && len(l.Write) == 0 && !l.HasReply {
		return
	}
	c.read.Add(uint64(len(l.Read)))
	if len(l.Read) > 0 && l.Read[0].Position == 0 {
		c.long.Add(1)
	}
	for _, w := range l.Write {
		c.write.Add(uint64(len(w)))
		c.offered.Add(w.Room())
	}
	c.reply.Add(uint64(len(l.Reply)))
	c.offered.Add(l.Reply.Room())
}

// Snapshot copies them.
func (c *Segments) snapshot(s *rpc.Stats) {
	s.ReadSegments, s.WriteSegments, s.ReplySegments = c.read.Load(), c.write.Load(), c.reply.Load()
	s.LongCalls, s.OctetsOffered = c.long.Load(), c.offered.Load()
}
