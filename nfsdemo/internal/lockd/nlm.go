package lockd

import (
	"bytes"
	"context"
	"errors"
	"math"
	"time"

	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

// serveNLM answers one call.
func (s *Server) serveNLM(ctx context.Context, c *server.Call) error {
	proc := Proc(c.Proc)
	switch {
	case c.Vers == 2:
		c.Resp.ProgMismatch(Version1, Version4)
		return nil
	case c.Vers == Version1 && proc >= ProcShare:
		c.Resp.Stat = xdr.ProcUnavail
		return nil
	}
	d := xdr.NewDecoder(c.Args)
	var res Message
	var err error
	switch proc {
	case ProcTest, ProcTestMsg:
		var a TestArgs
		if err = Parse(&d, &a, c.Vers); err == nil {
			res = s.test(ctx, c, &a)
		}
	case ProcLock, ProcLockMsg, ProcNMLock:
		var a LockArgs
		if err = Parse(&d, &a, c.Vers); err == nil {
			res = &Res{Cookie: a.Cookie, Status: s.lock(ctx, c, &a)}
		}
	case ProcCancel, ProcCancelMsg:
		var a CancelArgs
		if err = Parse(&d, &a, c.Vers); err == nil {
			res = &Res{Cookie: a.Cookie, Status: s.unlock(ctx, c, &a.Lock, a.Exclusive, true)}
		}
	case ProcUnlock, ProcUnlockMsg:
		var a UnlockArgs
		if err = Parse(&d, &a, c.Vers); err == nil {
			res = &Res{Cookie: a.Cookie, Status: s.unlock(ctx, c, &a.Lock, false, false)}
		}
	case ProcShare, ProcUnshare:
		// Choice: none. They would have to bind those who open files by NFS, which has no OPEN.
		var a ShareArgs
		if err = Parse(&d, &a, c.Vers); err == nil {
			res = &ShareRes{Cookie: a.Cookie, Status: Failed}
		}
	case ProcFreeAll:
		var a FreeAllArgs
		if err = Parse(&d, &a, c.Vers); err == nil {
			if cl := s.maybe(hostOf(c.RemoteAddr, a.Name)); cl != nil {
				s.release(cl)
			}
		}
		return err
	case ProcGrantedRes:
		var a Res
		if err = Parse(&d, &a, c.Vers); err == nil {
			s.answered(peeraddr.Host(c.RemoteAddr), a.Cookie, a.Status)
		}
		return err
	case ProcTestRes, ProcLockRes, ProcCancelRes, ProcUnlockRes:
		return nil // we have not asked
	case ProcGranted, ProcGrantedMsg, NLMProcNull, NLMProcCount:
		c.Resp.Stat = xdr.ProcUnavail // we wait for no lock
		return nil
	default:
		c.Resp.Stat = xdr.ProcUnavail
		return nil
	}
	switch {
	case err != nil:
		return err
	case proc >= ProcTestMsg && proc <= ProcUnlockMsg:
		s.reply(c, proc-ProcTestMsg+ProcTestRes, Append(nil, res, c.Vers))
	default:
		c.Resp.Results = Append(c.Resp.Results, res, c.Vers)
	}
	return nil
}

// rangeOf returns the range of l, and false if it begins where no octet can be.
func rangeOf(l *Lock) (start, end uint64, ok bool) {
	if l.Offset > math.MaxInt64 {
		return 0, 0, false
	}
	if l.Len == 0 || l.Len > math.MaxInt64-l.Offset { // whoever locks up to the largest offset means the end
		return l.Offset, backend.LockEnd, true
	}
	return l.Offset, l.Offset + l.Len - 1, true
}

// owner is an owner of locks at a client.
func owner(client string, id uint32) backend.LockOwner {
	return backend.LockOwner{Client: client, ID: uint64(id)}
}

// target finds the file of a lock. With open the caller must have rights to it.
func (s *Server) target(ctx context.Context, c *server.Call, l *Lock, open bool) (target, Status) {
	fs, h, err := s.cfg.Files.LockFile(ctx, c, nfs3.FileHandle(l.File), open)
	switch {
	case err == nil:
	case errors.Is(err, nfs3.ErrStale) || errors.Is(err, nfs3.ErrBadHandle):
		return target{}, Stale
	default:
		return target{}, Failed
	}
	if k, ok := fs.(backend.Locker); ok {
		return target{k, string(h)}, Granted
	}
	return target{s.local, string(l.File)}, Granted // with the number of its export
}

// lasts reports whether the locks of a file outlive this server.
func (t *target) lasts() bool { _, ok := t.locks.(backend.Locker); return ok }

// maybe returns a client that may hold locks: one that is known, or any if others could have given it some.
func (s *Server) maybe(h host) *client {
	if cl := s.client(h); cl != nil || len(s.cfg.Shared) == 0 {
		return cl
	}
	cl, err := s.enter(h, false)
	if err != nil {
		return nil
	}
	s.leave(cl)
	return cl
}

// statusOf is the answer for an error of a Locker.
func (s *Server) statusOf(err error) Status {
	if err == nil {
		return Granted
	}
	if _, ok := errors.AsType[*backend.LockedError](err); ok {
		return Denied
	}
	s.stats.noLocks.Add(1)
	if !errors.Is(err, backend.ErrNoLocks) {
		s.cfg.Logger.Warn("lockd: backend error", zap.Error(err))
	}
	return DeniedNoLocks
}

// test is TEST.
func (s *Server) test(ctx context.Context, c *server.Call, a *TestArgs) *TestRes {
	res := &TestRes{Cookie: a.Cookie}
	start, end, ok := rangeOf(&a.Lock)
	var t target
	switch {
	case !ok:
		res.Status = TooBig
	default:
		t, res.Status = s.target(ctx, c, &a.Lock, true)
		if res.Status == Granted && s.Grace() > 0 && !t.lasts() {
			res.Status = DeniedGrace
		}
	}
	if res.Status != Granted {
		return res
	}
	l := backend.Lock{Owner: owner(hostOf(c.RemoteAddr, a.Lock.Caller).key(), a.Lock.ID), Exclusive: a.Exclusive, Start: start, End: end}
	err := t.locks.TestLock(ctx, []byte(t.handle), &l)
	res.Status = s.statusOf(err)
	if locked, ok := errors.AsType[*backend.LockedError](err); ok {
		h := &locked.Holder
		res.Exclusive, res.ID, res.Offset = h.Exclusive, uint32(h.Owner.ID), h.Start
		if h.End != backend.LockEnd {
			res.Len = h.End - h.Start + 1
		}
	}
	return res
}

// lock is LOCK and NM_LOCK.
func (s *Server) lock(ctx context.Context, c *server.Call, a *LockArgs) Status {
	start, end, ok := rangeOf(&a.Lock)
	if !ok {
		return TooBig
	}
	t, st := s.target(ctx, c, &a.Lock, true)
	if st != Granted {
		return st
	}
	h := hostOf(c.RemoteAddr, a.Lock.Caller)
	l := backend.Lock{Owner: owner(h.key(), a.Lock.ID), Exclusive: a.Exclusive, Start: start, End: end}
	grace := s.Grace() > 0
	switch k, lasts := t.locks.(backend.Locker); {
	case lasts && a.Reclaim:
		if held, err := k.HoldsLock(ctx, []byte(t.handle), &l); err != nil {
			return s.statusOf(err)
		} else if !held {
			return Denied // it was given up, and others may have had it
		}
	case lasts:
	case grace != a.Reclaim: // after the grace period, others may have had the lock meanwhile
		return DeniedGrace
	case grace && !s.before[h]:
		return Denied
	}
	cl, err := s.enter(h, Proc(c.Proc) != ProcNMLock)
	if err != nil {
		return s.statusOf(backend.ErrNoLocks)
	}
	defer s.leave(cl)
	l.Owner.Client = cl.key // one for all its locks
	key := blockKey{t, l}
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if b := cl.blocks[key]; b != nil {
		if !b.granted {
			return Blocked
		}
		delete(cl.blocks, key) // it knows now
		b.end()
		return Granted
	}
	err = t.locks.SetLock(ctx, []byte(t.handle), &l, false)
	if _, locked := errors.AsType[*backend.LockedError](err); !locked || !a.Block {
		return s.statusOf(err)
	}
	if s.ctx.Err() != nil || !s.takeBlock(cl.share()) {
		return s.statusOf(backend.ErrNoLocks)
	}
	b := &block{key: key, vers: c.Vers, network: c.Network, async: Proc(c.Proc) == ProcLockMsg, began: time.Now(), done: make(chan struct{})}
	b.args = TestArgs{Exclusive: a.Exclusive, Lock: a.Lock}
	for _, v := range []*[]byte{&b.args.Lock.Caller, &b.args.Lock.File, &b.args.Lock.Owner} {
		*v = bytes.Clone(*v) // they were lent
	}
	b.ctx, b.end = context.WithCancel(s.ctx)
	cl.blocks[key] = b
	s.wg.Go(func() { s.await(cl, b) })
	return Blocked
}

// unlock is UNLOCK and, with only, CANCEL: that ends a block, and no more.
func (s *Server) unlock(ctx context.Context, c *server.Call, l *Lock, exclusive, only bool) Status {
	start, end, ok := rangeOf(l)
	if !ok {
		return TooBig
	}
	t, st := s.target(ctx, c, l, false)
	if st != Granted {
		return st
	}
	cl := s.maybe(hostOf(c.RemoteAddr, l.Caller))
	switch {
	case cl == nil && only:
		return Denied
	case cl == nil && t.lasts():
		return s.statusOf(backend.ErrNoLocks) // there is no room for one more client: it has to ask again
	case cl == nil:
		return Granted // who holds nothing can give it back
	}
	key := blockKey{t, backend.Lock{Owner: owner(cl.key, l.ID), Exclusive: exclusive, Start: start, End: end}}
	found := s.cancel(cl, key, !only)
	switch {
	case only && !found:
		return Denied // it was granted, or nobody has waited
	case only:
		return Granted
	}
	cl.mu.Lock()
	defer cl.mu.Unlock()
	ctx, cancel := s.settling()
	defer cancel()
	return s.statusOf(t.locks.Unlock(ctx, []byte(t.handle), &key.lock))
}
