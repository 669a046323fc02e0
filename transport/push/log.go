package push

import (
	"context"
	"errors"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/transport/commitlog"
	"go.uber.org/zap"
)

// log is a log of a Server.
type log struct {
	s     *Server
	name  string
	owner Owner
	host  string // for which it was made, "" if unknown
	size  uint64 // of the ring
	mem   region.Memory
	log   *commitlog.Log // nil if it could not be opened; err says why
	err   error
	ctx   context.Context // ends when the memory fails, and with the server
	fail  context.CancelCauseFunc
	turn  chan struct{} // one slot: held by the call that opens a session, or releases records
	reads chan struct{} // a slot per running READ

	// Guarded by Server.mu.
	session *session // nil: none
	claim   key      // who may resume: the durable instance of the log, or who is taking it over

	seen uint64 // number of the last record that TryNext has returned; belongs to whoever has the turn
}

// load opens a log of the store.
func (s *Server) load(name string) (*log, error) {
	mem, from, err := s.Store.Open(name)
	l := &log{s: s, name: name, owner: from.Owner, host: from.Host, turn: make(chan struct{}, 1), reads: make(chan struct{}, max(s.lim.MaxReads/readsShare, 1))}
	l.ctx, l.fail = context.WithCancelCause(s.ctx)
	if err == nil {
		l.mem = mem
		l.log, err = commitlog.Open(mem)
	}
	if err != nil {
		l.err = err
		s.logger.Error("push: log not opened", zap.String("log", name), zap.Error(err))
	} else {
		l.size = l.log.Info().Capacity
		l.claim = l.log.Instance()
		l.seen = l.log.Info().HeadSeq - 1
		l.log.OnError(l.failed)
		l.doubt()
	}
	if !s.add(l) {
		return nil, errors.Join(ErrServerClosed, l.close(context.Background()))
	}
	return l, err
}

// doubt logs what is damaged. The header has the owner's digest too, with a checksum: it counts.
func (l *log) doubt() {
	info := l.log.Info()
	if info.Poison != nil {
		l.s.logger.Error("push: log damaged (see nfsdemo log verify)", zap.String("log", l.name), zap.Error(info.Poison))
	}
	for _, e := range [...]*commitlog.FormatError{info.BadHeader, info.BadHead} {
		if e != nil {
			l.s.logger.Error("push: log damaged, but its other copy of that is whole (look at the medium)", zap.String("log", l.name), zap.Error(e))
		}
	}
	if owner := Owner(l.log.Owner()); owner != l.owner {
		l.s.logger.Error("push: owner of a log damaged, but its header has the owner too (look at the medium)", zap.String("log", l.name))
		l.owner = owner
	}
}

// add adds a log. It returns false if the server is closed.
func (s *Server) add(l *log) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.unreserve(l.name)
	s.logs[l.name] = l
	s.octets += l.size
	return true
}

// failed is called with the first error of the memory.
func (l *log) failed(err error) {
	l.fail(err)
	l.s.ctr.lost.Add(1)
	l.s.logger.Error("push: memory of a log failed", zap.String("log", l.name), zap.Error(err))
}

// lost reports whether nothing can ever be appended again.
func (l *log) lost() bool {
	return l.log == nil || l.ctx.Err() != nil && !errors.Is(context.Cause(l.ctx), context.Canceled)
}

// close closes the log and its memory.
func (l *log) close(ctx context.Context) error {
	var err error
	if l.log != nil {
		err = l.log.Close(ctx)
	}
	if l.mem != nil && err == nil {
		err = l.mem.Close()
	}
	return err
}
