package count

import (
	"sync/atomic"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/transport/rpc"
)

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
