package pushwrite

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/stag-rdma/stag/internal/mutant"
	"github.com/stag-rdma/stag/nfsdemo/internal/lease"
	"github.com/stag-rdma/stag/nfsdemo/internal/pushfile"
	"github.com/stag-rdma/stag/transport/push"
	"github.com/stag-rdma/stag/transport/rpc"
	"go.uber.org/zap"
)

// log is a log, and how far it has been applied.
type log struct {
	n     lease.Log
	name  string
	p     *push.Log     // nil: it cannot be opened
	rush  chan struct{} // one slot: somebody waits for records
	ready chan struct{} // closed when the records from before the start have been applied, or cannot be
	once  sync.Once     // of ready
	size  uint64        // of the ring

	// Guarded by Server.mu.
	session   push.SessionID // the current one; zeros: none
	back      *rpc.Backward
	fencing   bool
	condemned *Blocked // the record that condemned the log; nil: none
	blocked   *Blocked
	applied   uint64 // position: all records before it have been applied, durably
	seq       uint64 // number of the last applied record
}

// tail loads the tail of the log: all acknowledged records lie before it.
func (l *log) tail() uint64 {
	if l.p == nil {
		return math.MaxUint64
	}
	return l.p.Tail()
}

// hurry tells the applier that somebody waits.
func (l *log) hurry() {
	select {
	case l.rush <- struct{}{}:
	default:
	}
}

// settled notes that the records from before the start have been applied, or cannot be.
func (l *log) settled() { l.once.Do(func() { close(l.ready) }) }

// isSettled reports whether settled was called.
func (l *log) isSettled() bool {
	select {
	case <-l.ready:
		return true
	default:
		return false
	}
}

// logOf returns what is known about a log. The caller holds s.mu.
func (s *Server) logOf(p *push.Log) *log {
	if l := s.byName[p.Name()]; l != nil {
		return l
	}
	info := p.Info()
	return s.add(&log{name: p.Name(), p: p, size: info.Capacity, applied: info.Head, seq: info.HeadSeq - 1})
}

// add adds a log. Its earlier leases are over: nobody appends yet. The caller holds s.mu.
func (s *Server) add(l *log) *log {
	l.n, l.rush, l.ready = lease.Log(len(s.logs)), make(chan struct{}, 1), make(chan struct{})
	s.logs = append(s.logs, l)
	s.byName[l.name] = l
	for id, g := range s.grants {
		if g.Log == l.name {
			s.table.Restore(l.n, l.applied, id, file(g.Grant.File))
		}
	}
	s.do(s.table.Fenced(l.n, l.tail()))
	return l
}

// adopt adds the logs that leases belong to. If a log is gone, somebody has removed it; if it cannot
// be read, nobody knows what its files lack.
func (s *Server) adopt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, g := range s.grants {
		if s.byName[g.Log] != nil {
			continue
		}
		p, err := s.ps.Log(g.Log)
		switch {
		case err == nil:
			s.logOf(p)
		case errors.Is(err, push.ErrNoLog):
			s.log.Warn("pushwrite: the log of a lease is gone: records that were not applied are lost",
				zap.String("log", g.Log), zap.Uint64("lease", uint64(id)))
			s.forget(id)
		default:
			l := s.add(&log{name: g.Log})
			l.settled()
			s.blockLocked(l, &Blocked{Log: l.name, Err: &lostError{err}, Since: time.Now()})
		}
	}
}

// began is called when a session begins, before its client knows about it.
func (s *Server) began(p *push.Log, id push.SessionID, again bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.logOf(p)
	if l.condemned != nil {
		return false
	}
	if !again {
		s.fenced(l, p.Tail())
		s.table.Opened(l.n, l.applied)
	}
	delete(s.sessions, l.session)
	l.session, l.back = id, nil
	s.sessions[id] = l
	return true
}

// ended is called when a client has closed its session.
func (s *Server) ended(p *push.Log, id push.SessionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.logOf(p)
	if l.session == id {
		l.fencing = true
		s.start(func() { s.fence(l) })
	}
}

// fenced ends the leases of a log whose last record lies before final. The caller holds s.mu.
func (s *Server) fenced(l *log, final uint64) {
	delete(s.sessions, l.session)
	l.session, l.back, l.fencing = push.SessionID{}, nil, false
	s.do(s.table.Fenced(l.n, final))
}

// fenceTime limits one attempt to fence.
const fenceTime = 5 * time.Second

// fence ends the session of a log and then its leases.
func (s *Server) fence(l *log) {
	for s.ctx.Err() == nil {
		s.mu.Lock()
		id, wanted := l.session, l.fencing
		if mutant.Is(mutant.FenceForgotten) {
			s.fenced(l, l.p.Tail())
			wanted = false
		}
		s.mu.Unlock()
		if !wanted {
			return
		}
		err := s.fenceNow(l, id, func() uint64 { return l.p.Tail() })
		if err == nil {
			return
		}
		s.log.Error("pushwrite: log not fenced yet", zap.String("log", l.name), zap.Error(err))
		select {
		case <-time.After(100 * time.Millisecond):
		case <-s.ctx.Done():
		}
	}
}

// fenceNow ends session id of a log, whose last record then lies before final(). With an error the log
// has not been fenced.
func (s *Server) fenceNow(l *log, id push.SessionID, final func() uint64) error {
	ctx, cancel := context.WithTimeout(s.ctx, fenceTime)
	defer cancel()
	fenced := false
	err := l.p.Fence(ctx, id, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		fenced = true
		s.fenced(l, final())
	})
	if !fenced {
		return err
	}
	s.ctr.fences.Add(1)
	s.log.Info("pushwrite: log fenced", zap.String("log", l.name), zap.Error(err))
	return nil
}

// condemn ends a log because of its record seq at pos, which no client may write. All records before it
// have been applied, and no more will be. It returns when the log is fenced, or the server closes.
func (s *Server) condemn(l *log, pos, seq uint64, why error) {
	s.ctr.condemned.Add(1)
	b := &Blocked{Log: l.name, Record: seq, Err: &condemnedError{why}, Since: time.Now()}
	s.advise(b)
	s.log.Error("pushwrite: log condemned", zap.String("log", l.name), zap.Uint64("record", seq), zap.Uint64("position", pos),
		zap.Error(why), zap.String("file", b.File), zap.String("remedy", b.Remedy))
	s.mu.Lock()
	l.condemned = b
	s.mu.Unlock()
	for s.ctx.Err() == nil {
		s.mu.Lock()
		id := l.session
		s.mu.Unlock()
		var err error
		if id != (push.SessionID{}) {
			err = s.fenceNow(l, id, func() uint64 { return pos })
		}
		if err == nil {
			break
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-s.ctx.Done():
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fenced(l, pos)
	l.applied, l.blocked = math.MaxUint64, nil
	s.do(s.table.Applied(l.n, math.MaxUint64)) // nobody need wait for the rest
	s.move()
}

// recallPause is how long recall waits before it asks a second time: by then the answer to OPEN has
// usually arrived. It doubles up to a twentieth of RecallTime.
const recallPause = 10 * time.Millisecond

// recall asks the client of a log to return a lease, repeatedly, until it has returned it or its time is
// over.
func (s *Server) recall(l *log, id lease.ID) {
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.RecallTime)
	defer cancel()
	s.log.Info("pushwrite: lease recalled", zap.String("log", l.name), zap.Uint64("lease", uint64(id)))
	most := s.cfg.RecallTime / 20
	for pause := min(recallPause, most); ; pause = min(2*pause, most) {
		s.mu.Lock()
		back, session, held := l.back, l.session, s.grants[id] != nil
		s.mu.Unlock()
		if !held || session == (push.SessionID{}) {
			return
		}
		a := pushfile.RecallArgs{Session: pushfile.Session(session), Lease: uint64(id), Milliseconds: uint32(s.cfg.RecallTime.Milliseconds())}
		switch st, err := callRecall(ctx, back, &a); {
		case err == nil && st == pushfile.StatusOK:
			s.mu.Lock()
			defer s.mu.Unlock()
			s.returned(l, id)
			return
		case err == nil && st == pushfile.StatusBusy:
			return // it calls RETURN when it is ready
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}
