package rdmap

import (
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// Stats counts what a connection has done since it began.
type Stats struct {
	FPDUsIn, FPDUsOut   uint64
	OctetsIn, OctetsOut uint64 // on the byte stream, without the startup
	// MessagesIn counts delivered messages, including requests and responses:
	// MessagesIn[OpFlushRequest] is the number of the peer's Flushes. MessagesOut counts messages
	// whose sending has begun.
	MessagesIn, MessagesOut verbs.OpCounts
	SendsIn, SendsOut       uint64 // of those, Sends and Immediates
	ReadsIn, ReadsOut       uint64 // of those, Read Requests
	WriteOctetsIn           uint64 // RDMA Write payload placed here
	WriteOctetsOut          uint64
	ReadOctetsIn            uint64 // RDMA Read Response payload placed here
	ReadOctetsOut           uint64
	Reads, Flushes          uint64 // system calls, or calls of the net.Conn
	Takeovers               uint64 // upcalls that lost the reading role
	RecvStalls              uint64 // times queue 0 waited for the pool
	Staging                 int    // octets of memory that hold an unfinished FPDU
}

// Stats returns a snapshot of the counters.
func (c *Conn) Stats() Stats {
	if c.dev != nil {
		return c.dev.Stats()
	}
	in := &c.in
	c.mu.Lock()
	out, flushes := c.out, c.flushes
	c.mu.Unlock()
	s := Stats{
		FPDUsIn: in.FPDUs.Load(), OctetsIn: in.Octets.Load(),
		WriteOctetsIn: in.WriteOctets.Load(), ReadOctetsIn: in.ReadOctets.Load(),
		FPDUsOut: out.FPDUs, OctetsOut: out.Octets, MessagesOut: out.Messages,
		WriteOctetsOut: out.WriteOctets, ReadOctetsOut: out.ReadOctets,
		Reads: c.reads.Load(), Flushes: flushes, Takeovers: c.taken.Load(), RecvStalls: c.stalls.Load(),
		Staging: int(c.partial.held.Load()),
	}
	for op := range s.MessagesIn {
		s.MessagesIn[op] = in.Messages[op].Load()
	}
	s.SendsIn, s.SendsOut = engine.Sends(&s.MessagesIn), engine.Sends(&s.MessagesOut)
	s.ReadsIn, s.ReadsOut = s.MessagesIn[verbs.OpReadRequest], s.MessagesOut[verbs.OpReadRequest]
	return s
}
