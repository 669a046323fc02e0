package rdmap

import "sync/atomic"

// ConnectionState is what the startup agreed upon.
type ConnectionState struct {
	// HandshakeComplete is false before Handshake has succeeded; the other
	// fields are then zero.
	HandshakeComplete bool
	Initiator         bool       // this side sent the MPA Request
	CRC               bool       // CRC32C is generated and checked
	IRD, ORD          int        // inbound and outbound request depth in force
	MULPDU            int        // largest ULPDU this side sends, octets
	StagPeer          bool       // the peer showed a stag capability block
	Extensions        Extensions // in force
	Revision          int        // MPA revision, 1 or 2
	SendMarkers       bool       // the peer asked for markers: this side sends them
	RecvMarkers       bool       // this side asked for markers: the peer sends them
	PeerToPeer        bool       // the initiator's first FPDU was a ready-to-receive message
}

// Stats counts what a connection has done. All counters are totals since the
// connection began.
type Stats struct {
	FPDUsIn, FPDUsOut   uint64
	OctetsIn, OctetsOut uint64 // on the byte stream, startup excluded
	SendsIn, SendsOut   uint64
	WriteOctetsIn       uint64 // RDMA Write payload placed here
	WriteOctetsOut      uint64
	ReadOctetsIn        uint64 // RDMA Read Response payload placed here
	ReadOctetsOut       uint64
	ReadsIn, ReadsOut   uint64 // Read Requests
	Reads, Flushes      uint64 // system calls, or calls of the net.Conn
	Takeovers           uint64 // upcalls relieved of the reading role
	RecvStalls          uint64 // times queue 0 waited for the pool
	Staging             int    // octets of memory that hold a begun FPDU
}

// recvTotals is what the holder of the reading role last published.
type recvTotals struct{ fpdus, octets, sends, writeOctets, readOctets, reads atomic.Uint64 }

func (t *recvTotals) set(n *recvCount) {
	t.fpdus.Store(n.fpdus)
	t.octets.Store(n.octets)
	t.sends.Store(n.sends)
	t.writeOctets.Store(n.writeOctets)
	t.readOctets.Store(n.readOctets)
	t.reads.Store(n.reads)
}

// Stats returns a snapshot of the counters.
func (c *Conn) Stats() Stats {
	s := Stats{
		FPDUsIn: c.in.fpdus.Load(), OctetsIn: c.in.octets.Load(), SendsIn: c.in.sends.Load(),
		WriteOctetsIn: c.in.writeOctets.Load(), ReadOctetsIn: c.in.readOctets.Load(),
		ReadsIn: c.in.reads.Load(), Reads: c.reads.Load(),
		Takeovers: c.taken.Load(), RecvStalls: c.stalls.Load(), Staging: int(c.half.held.Load()),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.FPDUsOut, s.OctetsOut, s.SendsOut = c.out.fpdus, c.out.octets, c.out.sends
	s.WriteOctetsOut, s.ReadOctetsOut, s.ReadsOut = c.out.writeOctets, c.out.readOctets, c.out.reads
	s.Flushes = c.flushes
	return s
}
