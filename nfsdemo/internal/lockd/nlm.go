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
		cookie := d.Opaque(MaxObject)
		c.Resp.Results = xdr.AppendUint32(Append(c.Resp.Results, &Res{cookie, Failed}, c.Vers), 0)
		return d.Err()
	case ProcFreeAll:
		var a Notify
		if err = xdr.Decode(&d, &a).Err(); err == nil {
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

// locks are those of a [backend.Locker], or the Locker of this process, which end with it.
type locks interface {
	TestLock(ctx context.Context, handle []byte, l *backend.Lock) error
	SetLock(ctx context.Context, handle []byte, l *backend.Lock, wait bool) error
	Unlock(ctx context.Context, handle []byte, l *backend.Lock) error
}

// target is a file, for who keeps its locks.
type target struct {
	locks  locks
	handle string
}

// blockKey tells the blocks of a client apart.
type blockKey struct {
	target
	lock backend.Lock
}

// block is a lock that a client waits for, or was not yet told that it has.
type block struct {
	key     blockKey
	args    TestArgs // of GRANTED
	vers    uint32
	network string // of the client's call
	async   bool   // the client uses the _MSG procedures
	began   time.Time
	granted bool // the lock is held; under the client's mutex
	ctx     context.Context
	end     context.CancelFunc
	done    chan struct{}
}

// early is how much earlier a client must have been told BLOCKED than GRANTED: it may not expect the
// latter before it has seen the former.
const early = 20 * time.Millisecond

// await waits for the lock of b, and tells the client.
func (s *Server) await(c *client, b *block) {
	defer s.dropBlock(c.share())
	defer close(b.done)
	defer b.end()
	err := b.key.locks.SetLock(b.ctx, []byte(b.key.handle), &b.key.lock, true)
	c.mu.With(func() {
		switch mine := c.blocks[b.key] == b; {
		case err != nil:
			if mine {
				delete(c.blocks, b.key) // the client finds out when it asks again
			}
		case !mine: // it was cancelled at this moment
			s.giveBack(b)
		default:
			b.granted = true
		}
	})
	if !b.granted {
		return
	}
	heard := s.tell(c, b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.blocks[b.key] != b {
		return // the client has asked again, or has cancelled: then it was given back there
	}
	delete(c.blocks, b.key)
	if !heard {
		s.giveBack(b)
		s.cfg.Logger.Info("lockd: a client did not take a lock that it had waited for", zap.String("client", c.name), zap.String("address", c.addr))
	}
}

// giveBack unlocks what b has got.
func (s *Server) giveBack(b *block) {
	ctx, cancel := s.settling()
	defer cancel()
	if err := b.key.locks.Unlock(ctx, []byte(b.key.handle), &b.key.lock); err != nil {
		s.cfg.Logger.Warn("lockd: a lock that nobody wants is still held", zap.Error(err))
	}
}

// cancel ends the blocks of an owner for exactly a range, in one mode or, with both, in either. The client must not
// be locked. It reports whether there were any.
func (s *Server) cancel(c *client, key blockKey, both bool) (any bool) {
	modes := []bool{key.lock.Exclusive}
	if both {
		modes = []bool{false, true}
	}
	for _, exclusive := range modes {
		key.lock.Exclusive = exclusive
		if b := s.take(c, key); b != nil {
			any = true
			<-b.done // so that what it might still get does not mix with what the client does next
		}
	}
	return any
}

// take ends the block of key, if there is one, and returns it.
func (s *Server) take(c *client, key blockKey) *block {
	c.mu.Lock()
	defer c.mu.Unlock() // the backend may panic
	b := c.blocks[key]
	if b != nil {
		delete(c.blocks, key)
		b.end()
		if b.granted {
			s.giveBack(b)
		}
	}
	return b
}

// tellTime limits how long a client is called.
const tellTime = 90 * time.Second

// tell calls GRANTED until the client has answered. It reports whether the client has the lock, or may have it: when
// a call was sent and the answer is lost, giving the lock to another could make two of them believe that they hold it.
func (s *Server) tell(c *client, b *block) bool {
	ctx, cancel := context.WithTimeout(b.ctx, tellTime)
	defer cancel()
	wait := early - time.Since(b.began)
	perhaps := false
	for try := range 5 {
		select {
		case <-ctx.Done():
			return perhaps
		case <-time.After(max(wait, 0)):
		}
		wait = s.cfg.Retry << try
		leave, ok := s.lane(ctx, c.share(), true)
		if !ok {
			return perhaps
		}
		st, sent, err := s.granted(c, b)
		leave()
		s.heard(c.share(), err)
		switch {
		case err != nil:
			perhaps = perhaps || sent
		case st == Granted:
			return true
		case st != DeniedGrace:
			return false
		}
	}
	return perhaps
}
