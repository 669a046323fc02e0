package lockd

import (
	"bytes"
	"context"
	"time"

	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

// serveNSM answers one call. It monitors nobody for other programs: a machine that mounts from others by
// NFSv3 with locks needs a monitor of its own.
func (s *Server) serveNSM(_ context.Context, c *server.Call) error {
	var state uint32
	s.mu.With(func() { state = s.kept.state })
	switch c.Proc {
	case ProcStat, ProcMon:
		r := StatRes{Outcome: Fail, State: state}
		c.Resp.Results = xdr.Encode(c.Resp.Results, &r)
	case ProcUnmon, ProcUnmonAll:
		c.Resp.Results = xdr.AppendUint32(c.Resp.Results, state)
	case ProcSimuCrash:
	case ProcNotify:
		d := xdr.NewDecoder(c.Args)
		var a Notify
		if err := xdr.Decode(&d, &a).Err(); err != nil {
			return err
		}
		s.started(peeraddr.Host(c.RemoteAddr), a.Name, a.State)
	default:
		c.Resp.Stat = xdr.ProcUnavail
	}
	return nil
}

// started frees what a client held before it has started again. Only calls from its own address count.
func (s *Server) started(addr string, name []byte, state uint32) {
	var list []*client
	s.mu.With(func() {
		for h, c := range s.clients {
			if h.addr == addr && sameName([]byte(h.name), name) {
				list = append(list, c)
			}
		}
	})
	if len(list) == 0 {
		if c := s.maybe(host{addr, string(name)}); c != nil {
			list = append(list, c)
		}
	}
	for _, c := range list {
		var repeated bool
		c.mu.With(func() {
			repeated = state == c.notified && state != 0 // a client says it more than once: the locks are new ones
			c.notified = state
		})
		if !repeated {
			s.cfg.Logger.Info("lockd: a client has started again: its locks are free", zap.String("client", c.name), zap.String("address", addr))
			s.release(c)
		}
	}
}

// sameName reports whether two names are of one machine: one of them may be without its domain.
func sameName(a, b []byte) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	return len(a) > 0 && bytes.EqualFold(a, b[:len(a)]) && (len(a) == len(b) || b[len(a)] == '.')
}

// How long a client that held locks is called.
const (
	notifyFor  = 15 * time.Minute
	notifyRest = time.Minute // the longest wait between two calls
)

// notify tells a client that held locks before that this server has started again, and forgets it when it
// cannot reclaim them anymore.
func (s *Server) notify(h host) {
	ctx, cancel := context.WithTimeout(s.ctx, notifyFor)
	defer cancel()
	args := xdr.Encode(nil, &Notify{Name: []byte(s.cfg.Name), State: s.kept.state})
	for wait := s.cfg.Retry; ctx.Err() == nil; wait = min(2*wait, notifyRest) {
		leave, ok := s.lane(ctx, h.share(), true)
		if !ok {
			break
		}
		_, err := s.tryBoth(ctx, h.addr, NSMProgram, NSMVersion, ProcNotify, args)
		leave()
		s.heard(h.share(), err)
		if err == nil {
			break
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	select {
	case <-time.After(s.Grace()):
	case <-s.ctx.Done():
		return // it has to be told next time
	}
	var change uint64
	s.mu.With(func() {
		if c := s.clients[h]; c != nil && c.kept != 0 {
			return
		}
		delete(s.kept.hosts, h)
		s.changes++
		change = s.changes
	})
	_ = s.save(change) // it is told once more than necessary
}
