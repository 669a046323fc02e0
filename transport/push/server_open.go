package push

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"math"
	"syscall"

	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/rpc"
	"go.uber.org/zap"
)

// mostOpens limits the OPENs that run at a time: each may wait for a fence. One host may have one in so many: it
// could fill all places with OPENs of one log, which wait for each other.
const (
	mostOpens  = 64
	opensShare = 8
)

// open serves OPEN.
func (s *Server) open(ctx context.Context, req *rpc.Request, a *openArgs) openRes {
	host := peeraddr.Share(req.RemoteAddr)
	if !s.opening.Enter(req.RemoteAddr, mostOpens/opensShare) {
		return s.refuse(StatusBusy)
	}
	defer s.opening.Leave(req.RemoteAddr)
	select {
	case s.calls <- struct{}{}:
		defer func() { <-s.calls }()
	default:
		return s.refuse(StatusBusy)
	}
	l, m, st := s.find(req, a, host)
	if m != nil {
		l, st = s.create(a.Name, m)
	}
	if st != StatusOK {
		return s.refuse(st)
	}
	return s.begin(ctx, l, a)
}

func (s *Server) refuse(st Status) openRes {
	s.ctr.refused.Add(1)
	if st == StatusFull {
		s.ctr.full.Add(1)
	}
	return openRes{Status: st}
}

// find returns what an OPEN may have: a log, or the room to make one. Whatever is wrong, the answer is the same and
// takes the same time: one look-up of the name, and one comparison of digests. An OPEN that resumes makes no log:
// its client knows of records.
func (s *Server) find(req *rpc.Request, a *openArgs, host string) (*log, *making, Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, m := s.logs[a.Name], s.making[a.Name]
	var want Owner // nobody's: no secret has this digest
	switch {
	case l != nil:
		want = l.owner
	case m != nil:
		want = m.from.Owner
	}
	got := ownerOf(&a.Secret)
	same := subtle.ConstantTimeCompare(want[:], got[:]) == 1
	switch {
	case s.closed, same && l == nil:
		return nil, nil, StatusBusy
	case same:
		return l, nil, StatusOK
	case l == nil && m == nil && !a.Resume && a.Secret != (Secret{}) && possible(a.Name) && s.allowed(req, a.Name):
		m, st := s.reserve(a, got, host)
		return nil, m, st
	}
	return nil, nil, StatusRefused
}

func (s *Server) allowed(req *rpc.Request, name string) bool {
	return s.Allow == nil || s.Allow(req, name)
}

// begin begins a session on l for an owner, and ends the previous one.
func (s *Server) begin(ctx context.Context, l *log, a *openArgs) openRes {
	if l.lost() {
		return s.refuse(StatusLost)
	}
	ctx, cancel := context.WithTimeout(ctx, s.lim.FenceTime)
	defer cancel()
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return s.refuse(StatusBusy)
	}
	old, fenced := s.fence(l, a)
	if fenced {
		return s.refuse(StatusFenced)
	}
	prep, err := l.log.Prepare(ctx, a.Instance)
	old.abort()
	switch {
	case errors.Is(err, region.ErrPinned), err != nil && s.ctx.Err() != nil:
		return s.refuse(StatusBusy) // the old session is over, but its operations still run
	case err != nil:
		s.logger.Error("push: session not begun", zap.String("log", l.name), zap.Error(err))
		return s.refuse(StatusLost)
	}
	return s.admit(l, prep, a)
}

// fence ends the session of l for calls, unless the opening instance was fenced itself: an instance
// that resumes after another has opened the log is told so, so that two of them do not fence each
// other forever. The instance in the header of the log decides, which a restart of the server does
// not change. The claim only adds to it whoever could not finish taking over, because operations were
// still running: otherwise the fenced instance could come before its next try.
func (s *Server) fence(l *log, a *openArgs) (old *session, fenced bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.Resume && l.claim != a.Instance {
		return nil, true
	}
	l.claim = a.Instance
	old = l.session
	s.drop(old)
	return old, false
}

// admit adds the new session.
func (s *Server) admit(l *log, prep *commitlog.Prepared, a *openArgs) openRes {
	sess := &session{l: l, id: key(NewSecret()), prep: prep, turn: make(chan struct{}, 1)}
	res := openRes{Opened: opened{Session: sess.id, Answer: prep.Answer()}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return openRes{Status: StatusBusy}
	}
	l.session = sess
	s.sessions[sess.id] = sess
	if a.Native && s.Addr != "" {
		at := s.side.Offer(sess, s.Addr)
		sess.token, res.Opened.Commit = at.Token, &at
	}
	s.ctr.opens.Add(1)
	s.logger.Info("push: session", zap.String("log", l.name), zap.Uint32("epoch", res.Opened.Answer.Epoch))
	return res
}

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
		s.mu.With(func() { s.unreserve(name) })
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
