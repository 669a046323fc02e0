package push

import (
	"fmt"
	"math"
	"net/netip"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/transport/commitlog"
	"go.uber.org/zap"
)

// One host may have one part in so many.
const (
	issuedShare = 8 // of MaxIssued
	logsShare   = 8
	octetsShare = 4
)

// room returns StatusOK if another secret may be issued. The caller holds s.mu.
func (s *Server) room(host string) Status {
	issued := 0
	for _, is := range s.issued {
		if is.host == host {
			issued++
		}
	}
	logs, octets := s.taken(host)
	switch most, mostOctets := s.lim.client(host); {
	case len(s.logs)+len(s.issued) >= s.lim.MaxLogs || s.octets >= s.lim.MaxOctets:
		return s.full("all logs together", host)
	case logs >= most || octets >= mostOctets:
		return s.full("one host", host)
	case len(s.issued) >= s.lim.MaxIssued || issued >= max(s.lim.MaxIssued/issuedShare, 1):
		return StatusBusy
	}
	return StatusIssued
}

// taken counts the logs of a host and the octets of their rings, including those that it may still
// make. The caller holds s.mu.
func (s *Server) taken(host string) (logs int, octets uint64) {
	for _, l := range s.logs {
		if l.host == host {
			logs, octets = logs+1, octets+l.size
		}
	}
	for _, is := range s.issued {
		if is.host == host {
			logs, octets = logs+1, octets+is.octets
		}
	}
	return logs, octets
}

// client returns the limits for a host, by the same rules as transport.ClientLimits.
func (l *Limits) client(host string) (logs int, octets uint64) {
	ip, err := netip.ParseAddr(host)
	local := err != nil || ip.IsLoopback()
	logs, octets = math.MaxInt, math.MaxUint64
	switch {
	case l.ClientLogs > 0:
		logs = l.ClientLogs
	case l.ClientLogs == 0 && !local:
		logs = max(l.MaxLogs/logsShare, 1)
	}
	switch {
	case l.ClientOctets > 0:
		octets = uint64(l.ClientOctets)
	case l.ClientOctets == 0 && !local:
		octets = max(l.MaxOctets/octetsShare, 1)
	}
	return logs, octets
}

// full logs what there is no room for and returns StatusFull. The caller holds s.mu.
func (s *Server) full(whose, host string) Status {
	logs, octets := s.taken(host)
	s.log.Warn("push: no room for another log (remove logs that nobody uses, or raise the limit; until then the client does without)",
		zap.String("limit of", whose), zap.String("host", host), zap.Int("its logs", logs), zap.Uint64("its octets", octets),
		zap.Int("all logs", len(s.logs)), zap.Uint64("all octets", s.octets))
	return StatusFull
}

// create makes the log of an issued secret. If it cannot be made now, the secret stays valid.
func (s *Server) create(a *openArgs) (*Log, Status) {
	is, capacity, st := s.reserve(a)
	if st != StatusOK {
		return nil, st
	}
	l, err := s.make(a.Name, is, capacity)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unreserve(is)
	is.making = false
	if s.logs[a.Name] != nil {
		delete(s.issued, a.Name)
	}
	if err != nil {
		s.log.Error("push: log not made", zap.String("log", a.Name), zap.Error(err))
		return nil, StatusFull
	}
	s.log.Info("push: log made", zap.String("log", a.Name), zap.String("host", is.host), zap.Uint64("capacity", capacity))
	return l, StatusOK
}

// reserve reserves the room for a log until it exists, or cannot be made.
func (s *Server) reserve(a *openArgs) (is *issue, capacity uint64, st Status) {
	capacity = s.lim.capacity(a.Capacity)
	s.mu.Lock()
	defer s.mu.Unlock()
	is = s.issued[a.Name]
	_, octets := s.taken(is.host)
	_, most := s.lim.client(is.host)
	switch {
	case s.octets+capacity > s.lim.MaxOctets:
		st = s.full("all logs together", is.host)
	case octets+capacity > most:
		st = s.full("one host", is.host)
	default:
		is.octets = capacity
		s.octets += capacity
		return is, capacity, StatusOK
	}
	is.making = false
	return nil, 0, st
}

// unreserve undoes reserve. The caller holds s.mu.
func (s *Server) unreserve(is *issue) {
	s.octets -= is.octets
	is.octets = 0
}

func (s *Server) make(name string, is *issue, capacity uint64) (*Log, error) {
	size, err := commitlog.MemorySize(capacity)
	if err != nil {
		return nil, err
	}
	format := func(mem region.Memory) error {
		var o commitlog.Options
		if s.Options != nil {
			o = *s.Options
		}
		o.Owner = is.owner
		return commitlog.Create(mem, &o)
	}
	if hs, ok := s.Store.(HostStore); ok {
		err = hs.CreateFor(is.host, name, size, is.owner, format)
	} else {
		err = s.Store.Create(name, size, is.owner, format)
	}
	if err != nil {
		return nil, fmt.Errorf("not in the store: %w", err)
	}
	return s.load(name, is.host)
}
