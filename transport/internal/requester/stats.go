package requester

import (
	"errors"
	"io"
	"net"

	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/rpc"
)

// StatsOf copies the counters of a transport, which are not read at the same instant.
func StatsOf(c *memory.Counters) rpc.Stats {
	g := &c.Segments
	s := rpc.Stats{
		CallStats: rpc.CallStats{
			Calls: c.Calls.Load(), Replies: c.Replies.Load(), InFlight: int(c.InFlight.Load()),
			Errors: c.Errors.Load(), Unbound: c.Unbound.Load(), Dropped: c.Dropped.Load(), Panics: c.Panics.Load(),
			Takeovers: c.Takeovers.Load(), Late: c.Late.Load(), OctetsInline: c.Inline.Load(), Padded: c.Padded.Load(), LongCalls: g.Long.Load(),
		},
		ChunkStats: rpc.ChunkStats{
			OctetsRead: c.Read.Load(), OctetsWritten: c.Written.Load(), Deferred: c.Deferred.Load(), Unpulled: c.Unpulled.Load(),
			ReadSegments: g.Read.Load(), WriteSegments: g.Write.Load(), ReplySegments: g.Reply.Load(), OctetsOffered: g.Offered.Load(),
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
	if b := c.Backward.Load(); b != nil {
		s.BackwardCalls, s.BackwardReplies = b.Calls.Load(), b.Replies.Load()
	}
	return s
}

// Ended reports whether err is the orderly end of a connection, by either side.
func Ended(err error) bool {
	if e, ok := errors.AsType[*verbs.ConnError](err); ok {
		err = e.Err // because every ConnError is also a net.ErrClosed
	}
	return errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed)
}

// IgnoreEnd drops the errors that only say that a connection is over.
func IgnoreEnd(err error) error {
	if err == nil || Ended(err) {
		return nil
	}
	return err
}
