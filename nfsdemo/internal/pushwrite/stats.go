package pushwrite

import (
	"sync/atomic"

	"github.com/stag-rdma/stag/transport/push"
)

// Stats are the counters of a Server.
type Stats struct {
	Leases    int    // now
	Behind    uint64 // octets of records that have not been applied
	Grants    uint64 // OPENs that got a lease
	Recalls   uint64 // leases recalled
	Fences    uint64 // logs whose session was ended
	Condemned uint64 // logs with a record that no client may write
	Records   uint64 // records applied or discarded
	Discarded uint64 // of these, discarded
	Octets    uint64 // octets of data applied
	Waits     uint64 // NFS operations that waited for records or leases
	Blocked   uint64 // times that a record could not be applied
	Queued    int    // logs that now wait for their turn to be applied
	Pressed   uint64 // times that a client was asked to push less, or more
	// Now lists the records that cannot be applied.
	Now []Blocked `json:"-"`
	// NowCondemned lists the records that condemned their logs. Neither they nor the records
	// after them are applied, and their logs take up room until GiveUp.
	NowCondemned []Blocked `json:"-"`
	// Logs are the counters of the logs.
	Logs push.Stats
}

type counters struct {
	grants, recalls, fences, condemned, records, discarded, octets, waits, blocked, pressed atomic.Uint64

	queued atomic.Int64
}

// Stats returns the counters. They are not read at the same instant.
func (s *Server) Stats() Stats {
	st := Stats{
		Leases: int(s.leases.Load()), Grants: s.ctr.grants.Load(), Recalls: s.ctr.recalls.Load(),
		Fences: s.ctr.fences.Load(), Condemned: s.ctr.condemned.Load(), Records: s.ctr.records.Load(), Discarded: s.ctr.discarded.Load(),
		Octets: s.ctr.octets.Load(), Waits: s.ctr.waits.Load(), Blocked: s.ctr.blocked.Load(),
		Pressed: s.ctr.pressed.Load(), Queued: int(s.ctr.queued.Load()), Logs: s.ps.Stats(),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.logs {
		if tail := l.tail(); l.condemned == nil {
			st.Behind += min(tail-min(tail, l.applied), l.size)
		}
		if l.condemned != nil {
			st.NowCondemned = append(st.NowCondemned, *l.condemned)
		}
		if l.blocked != nil {
			st.Now = append(st.Now, *l.blocked)
		}
	}
	return st
}
