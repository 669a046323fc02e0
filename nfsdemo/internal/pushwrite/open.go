package pushwrite

import (
	"context"
	"errors"
	"time"

	"github.com/stag-rdma/stag/internal/mutant"
	"github.com/stag-rdma/stag/nfsdemo/internal/lease"
	"github.com/stag-rdma/stag/nfsdemo/internal/pushfile"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/push"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

// open serves OPEN.
func (s *Server) open(ctx context.Context, c *server.Call, a *pushfile.OpenArgs) pushfile.OpenRes {
	s.mu.Lock()
	known := s.session(a.Session, c.Backward) != nil
	s.mu.Unlock()
	if !known {
		return refused(pushfile.StatusStaleSession)
	}
	right, room, err := s.files.Grant(ctx, c, a.File)
	if err != nil {
		return refused(statusOf(err))
	}
	g, st := s.grant(a, right, &room)
	if st != pushfile.StatusOK {
		return refused(st)
	}
	if err := s.settle(g); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.returned(s.byName[g.Log], g.ID)
		s.log.Error("pushwrite: lease not stored", zap.Error(err))
		return refused(pushfile.StatusIO)
	}
	s.ctr.grants.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	return pushfile.OpenRes{Lease: uint64(g.ID), Reserved: g.reserved, Max: s.maxData(s.byName[g.Log])}
}

func refused(st pushfile.Status) pushfile.OpenRes { return pushfile.OpenRes{Status: st} }

// maxData returns how many octets of data one record may carry.
func (s *Server) maxData(l *log) uint32 {
	return uint32(min(s.cfg.MaxRecord, commitlog.PayloadLimit(l.p.Info().Capacity)) - pushfile.RecordHead)
}

// grant asks the table for a lease, and reserves room for it.
func (s *Server) grant(a *pushfile.OpenArgs, right *server.Grant, room *server.Room) (*grant, pushfile.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.sessions[push.SessionID(a.Session)]
	switch {
	case l == nil:
		return nil, pushfile.StatusStaleSession
	case l.condemned != nil:
		return nil, pushfile.StatusCondemned
	case l.blocked != nil:
		return nil, pushfile.StatusBlocked
	case len(s.grants) >= s.cfg.MaxLeases:
		return nil, pushfile.StatusTooMany
	case a.Octets > room.Avail-min(room.Avail, s.reserved(room.Export)):
		return nil, pushfile.StatusNoSpace
	}
	id, out, err := s.table.Grant(l.n, file(right.File), time.Now())
	s.do(out)
	switch {
	case errors.Is(err, lease.ErrBusy):
		return nil, pushfile.StatusBusy
	case errors.Is(err, lease.ErrTooMany):
		return nil, pushfile.StatusTooMany
	case err != nil:
		return nil, pushfile.StatusStaleSession
	}
	g := s.grants[id]
	if g == nil {
		g = &grant{stored: stored{ID: id, Log: l.name, Grant: *right}, export: room.Export}
		s.remember(g)
		s.last = id
	}
	g.reserved = max(g.reserved, a.Octets)
	return g, pushfile.StatusOK
}

// reserved returns the room that leases have reserved in an export. The caller holds s.mu.
func (s *Server) reserved(export string) (n uint64) {
	for _, g := range s.grants {
		if g.export == export {
			n += g.reserved
		}
	}
	return n
}

// settle returns when a lease is durable.
func (s *Server) settle(g *grant) error {
	s.mu.Lock()
	first := g.durable == nil
	if first {
		g.durable = make(chan struct{})
	}
	s.mu.Unlock()
	if first {
		if !mutant.Is(mutant.LeaseNotDurable) {
			g.err = s.store.grant(&g.stored)
		}
		close(g.durable)
	}
	<-g.durable
	return g.err
}

// giveBack serves RETURN.
func (s *Server) giveBack(back *rpc.Backward, a *pushfile.LeaseArgs) pushfile.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.session(a.Session, back)
	switch {
	case l == nil:
		return pushfile.StatusStaleSession
	case !s.returned(l, lease.ID(a.Lease)):
		return pushfile.StatusUnknownLease
	}
	return pushfile.StatusOK
}

// returned ends a lease of l that its client returns. It returns false if l has no such lease. The
// caller holds s.mu.
func (s *Server) returned(l *log, id lease.ID) bool {
	out, err := s.table.Return(l.n, id, l.p.Tail())
	s.do(out)
	return err == nil
}

// status serves STATUS.
func (s *Server) status(back *rpc.Backward, a *pushfile.StatusArgs) pushfile.StatusRes {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.session(a.Session, back)
	switch {
	case l == nil:
		return pushfile.StatusRes{Status: pushfile.StatusStaleSession}
	case l.condemned != nil:
		return pushfile.StatusRes{Status: pushfile.StatusCondemned}
	}
	res := pushfile.StatusRes{State: pushfile.State{Applied: l.seq}}
	if b := l.blocked; b != nil {
		res.State.Error, _ = b.status()
		res.State.Record, res.State.Lease, res.State.Text = b.Record, b.Lease, b.Err.Error()
	}
	return res
}

// statusOf converts the reason why a file cannot be opened to a status of the program.
func statusOf(err error) pushfile.Status {
	st, ok := errors.AsType[nfs3.Status](err)
	if !ok {
		return pushfile.StatusIO
	}
	switch st {
	case nfs3.ErrAcces, nfs3.ErrPerm:
		return pushfile.StatusRefused
	case nfs3.ErrROFS:
		return pushfile.StatusReadOnly
	case nfs3.ErrNoSpc:
		return pushfile.StatusNoSpace
	case nfs3.ErrDQuot:
		return pushfile.StatusQuota
	case nfs3.ErrStale:
		return pushfile.StatusStale
	case nfs3.ErrBadHandle, nfs3.ErrInval, nfs3.ErrIsDir:
		return pushfile.StatusBadFile
	case nfs3.ErrJukebox:
		return pushfile.StatusBusy
	default:
		return pushfile.StatusIO
	}
}

// errRecall: no client of this version gives such an answer.
var errRecall = errors.New("pushwrite: the client's answer to a recall cannot be decoded")

// callRecall calls CB_RECALL.
func callRecall(ctx context.Context, back *rpc.Backward, a *pushfile.RecallArgs) (pushfile.Status, error) {
	call := rpc.Call{
		Prog: pushfile.CallbackProgram, Vers: pushfile.CallbackVersion, Proc: pushfile.ProcRecall, Args: a.Append(nil),
	}
	var reply rpc.Reply
	defer reply.Release()
	if err := back.Do(ctx, &call, &reply); err != nil {
		return 0, err
	}
	if err := reply.Header.Err(); err != nil {
		return 0, err
	}
	d := xdr.NewDecoder(reply.Results)
	st := pushfile.Status(d.Uint32())
	if d.End() != nil {
		return 0, errRecall
	}
	return st, nil
}
