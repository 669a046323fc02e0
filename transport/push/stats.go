package push

import "sync/atomic"

// Stats has the counters of a server.
type Stats struct {
	Logs     int    // number of logs
	Sessions int    // open sessions
	Conns    int    // commit connections
	Octets   uint64 // total size of the rings
	Aside    int    // files in the Store without an owner that may hold records
	Made     uint64 // logs that did not exist before
	Opens    uint64 // sessions begun
	Refused  uint64 // OPENs that got no session
	Full     uint64 // of these, because there was no room for a log, in total or for one host
	Native   uint64 // sessions that use a commit connection
	Rejected uint64 // commit connections refused: without a valid token, or too many
	Appends  uint64 // records by APPEND
	Lost     uint64 // logs whose memory has failed
}

type counters struct {
	made, opens, refused, full, native, appends, lost atomic.Uint64
}

// Stats returns the counters. They are not read at the same instant.
func (s *Server) Stats() Stats {
	s.init()
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{
		Logs: len(s.logs), Sessions: len(s.sessions), Conns: s.side.Conns(), Octets: s.octets,
		Aside: s.aside, Made: s.ctr.made.Load(), Opens: s.ctr.opens.Load(), Refused: s.ctr.refused.Load(), Full: s.ctr.full.Load(),
		Native: s.ctr.native.Load(), Rejected: s.side.Rejected.Load(), Appends: s.ctr.appends.Load(),
		Lost: s.ctr.lost.Load(),
	}
}
