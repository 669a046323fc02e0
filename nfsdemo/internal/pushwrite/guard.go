package pushwrite

import (
	"context"
	"time"

	"github.com/stag-rdma/stag/internal/mutant"
	"github.com/stag-rdma/stag/nfsdemo/internal/lease"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// tail loads the tail of a log.
func (s *Server) tail(n lease.Log) uint64 { return s.logs[n].tail() }

// Idle implements server.Guard.
func (s *Server) Idle() bool { return s.leases.Load() == 0 }

// Look implements server.Guard.
func (s *Server) Look(ctx context.Context, files ...nfs3.FileHandle) error {
	if len(files) == 0 || mutant.Is(mutant.DrainSkipped) {
		return nil
	}
	s.mu.Lock()
	k, out := s.table.Look(s.tail, names(files)...)
	err := s.await(ctx, k, out)
	if err != nil {
		s.done(k)
	}
	return err
}

// LookAll implements server.Guard. It waits for whole logs, because there may be many leases.
func (s *Server) LookAll(ctx context.Context) error {
	if mutant.Is(mutant.DrainSkipped) || s.Idle() {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.WaitTime, nfs3.ErrJukebox)
	defer cancel()
	upto := make(map[*log]uint64)
	s.mu.Lock()
	for _, l := range s.logs {
		upto[l] = l.tail()
	}
	for {
		more, err := s.behind(upto)
		moved := s.moved
		s.mu.Unlock()
		if !more {
			return err
		}
		select {
		case <-moved:
		case <-s.ctx.Done():
			return errClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		s.mu.Lock()
	}
}

// behind reports whether a log has not been applied up to its position in upto. The error says that it
// cannot be. The caller holds s.mu.
func (s *Server) behind(upto map[*log]uint64) (more bool, err error) {
	for l, to := range upto {
		if l.applied >= to {
			delete(upto, l)
			continue
		}
		if l.blocked != nil {
			return false, l.blocked.Err
		}
		l.hurry()
		more = true
	}
	return more, nil
}

// Change implements server.Guard.
func (s *Server) Change(ctx context.Context, files ...nfs3.FileHandle) (done func(), err error) {
	if len(files) == 0 || mutant.Is(mutant.NotRecalled) {
		return func() {}, s.Look(ctx, files...)
	}
	s.mu.Lock()
	k, out := s.table.Change(s.tail, time.Now(), names(files)...)
	if err := s.await(ctx, k, out); err != nil {
		s.done(k)
		return nil, err
	}
	return func() { s.done(k) }, nil
}

func names(files []nfs3.FileHandle) []file {
	out := make([]file, len(files))
	for i, f := range files {
		out[i] = file(f)
	}
	return out
}

func (s *Server) done(k *lease.Ticket[file]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, k)
	s.do(s.table.Done(k))
}

// await waits until the operation of k may run. The caller holds s.mu, which await releases. After an
// error the caller calls Done.
func (s *Server) await(ctx context.Context, k *lease.Ticket[file], out []lease.Action[file]) error {
	run := make(chan struct{})
	s.waiting[k] = run
	s.do(out)
	s.mu.Unlock()
	select {
	case <-run:
		return k.Err
	default:
	}
	s.ctr.waits.Add(1)
	timer := time.NewTimer(s.cfg.WaitTime)
	defer timer.Stop()
	var err error
	select {
	case <-run:
		return k.Err
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = nfs3.ErrJukebox
	case <-s.ctx.Done():
		err = errClosed
	}
	return err
}
