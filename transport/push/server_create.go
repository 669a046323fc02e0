package push

import (
	"errors"
	"fmt"
	"math"
	"syscall"

	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/transport/commitlog"
	"go.uber.org/zap"
)

// One host may have one part in so many.
const (
	logsShare   = 8
	octetsShare = 4
)

// making is a log that is being made.
type making struct {
	from   Origin
	octets uint64 // of its ring
}

// taken counts the logs of a host and the octets of their rings, including those that are being
// made. The caller holds s.mu.
func (s *Server) taken(host string) (logs int, octets uint64) {
	for _, l := range s.logs {
		if l.host == host {
			logs, octets = logs+1, octets+l.size
		}
	}
	for _, m := range s.making {
		if m.from.Host == host {
			logs, octets = logs+1, octets+m.octets
		}
	}
	return logs, octets
}

// client returns the limits for a host, by the same rules as transport.ClientLimits.
func (l *Limits) client(host string) (logs int, octets uint64) {
	local := peeraddr.Many(host)
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
	s.logger.Warn("push: no room for another log (remove logs that nobody uses, or raise the limit; until then the client does without)",
		zap.String("limit of", whose), zap.String("host", host), zap.Int("its logs", logs), zap.Uint64("its octets", octets),
		zap.Int("all logs", len(s.logs)), zap.Uint64("all octets", s.octets))
	return StatusFull
}

// reserve reserves the name and the room for a log until it exists, or cannot be made. The caller holds s.mu.
func (s *Server) reserve(a *openArgs, owner Owner, host string) (*making, Status) {
	m := &making{Origin{owner, host}, s.lim.capacity(a.Capacity)}
	logs, octets := s.taken(host)
	switch most, mostOctets := s.lim.client(host); {
	case len(s.logs)+len(s.making) >= s.lim.MaxLogs || s.octets+m.octets > s.lim.MaxOctets:
		return nil, s.full("all logs together", host)
	case logs >= most || octets+m.octets > mostOctets:
		return nil, s.full("one host", host)
	}
	s.making[a.Name] = m
	s.octets += m.octets
	return m, StatusOK
}

// unreserve undoes reserve. The caller holds s.mu.
func (s *Server) unreserve(name string) {
	if m := s.making[name]; m != nil {
		s.octets -= m.octets
		delete(s.making, name)
	}
}

// create makes the log for which reserve has reserved the room.
func (s *Server) create(name string, m *making) (*log, Status) {
	l, err := s.make(name, m)
	if err != nil {
		s.mu.Lock()
		s.unreserve(name)
		s.mu.Unlock()
		s.logger.Error("push: log not made", zap.String("log", name), zap.Error(err))
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			return nil, StatusFull
		}
		return nil, StatusLost
	}
	s.ctr.made.Add(1)
	s.logger.Info("push: log made", zap.String("log", name), zap.String("host", m.from.Host), zap.Uint64("capacity", m.octets))
	return l, StatusOK
}

func (s *Server) make(name string, m *making) (*log, error) {
	size, err := commitlog.MemorySize(m.octets)
	if err != nil {
		return nil, err
	}
	format := func(mem region.Memory) error {
		var o commitlog.Options
		if s.Options != nil {
			o = *s.Options
		}
		o.Owner = m.from.Owner
		return commitlog.Create(mem, &o)
	}
	if err := s.Store.Create(name, size, m.from, format); err != nil {
		return nil, fmt.Errorf("not in the store: %w", err)
	}
	return s.load(name)
}
