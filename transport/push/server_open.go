package push

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"time"

	"github.com/stag-rdma/stag/internal/accept"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/commitlog"
	"go.uber.org/zap"
)

// issue is a secret that was issued for a name, until its log is made.
type issue struct {
	secret   Secret
	owner    Owner
	instance key // that has asked for it
	host     string
	until    time.Time
	making   bool
	octets   uint64 // of its ring, while it is being made
}

// open serves OPEN.
func (s *Server) open(ctx context.Context, req *transport.Request, a *openArgs) openRes {
	host := accept.Host(req.RemoteAddr)
	if !s.opens.try(host, time.Now()) {
		return s.refuse(StatusBusy)
	}
	select {
	case s.calls <- struct{}{}:
		defer func() { <-s.calls }()
	default:
		return s.refuse(StatusBusy)
	}
	l, st, secret := s.find(req, a, host)
	switch {
	case st == StatusIssued:
		return openRes{Status: StatusIssued, Secret: secret}
	case st != StatusOK:
		return s.refuse(st)
	case l == nil:
		if l, st = s.create(a); st != StatusOK {
			return s.refuse(st)
		}
	}
	return s.begin(ctx, req.Backward(), l, a)
}

func (s *Server) refuse(st Status) openRes {
	s.ctr.refused.Add(1)
	if st == StatusFull {
		s.ctr.full.Add(1)
	}
	return openRes{Status: st}
}

// find returns what an OPEN may have: a log, nil for one that may be made now, or a secret.
// Whatever is wrong, the answer is the same and takes the same time: one look-up of the name, and
// one comparison of digests.
func (s *Server) find(req *transport.Request, a *openArgs, host string) (*Log, Status, Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, st := s.match(req, a, host)
	if st == StatusIssued {
		return nil, st, s.issue(a, host)
	}
	return l, st, Secret{}
}

// match is find without issuing a secret. The caller holds s.mu.
func (s *Server) match(req *transport.Request, a *openArgs, host string) (*Log, Status) {
	s.expire(time.Now())
	l, is := s.logs[a.Name], s.issued[a.Name]
	var want, got Owner // nobody's: no secret has this digest
	switch {
	case l != nil:
		want = l.owner
	case is != nil:
		want = is.owner
	}
	if a.Secret != nil {
		got = ownerOf(a.Secret)
	}
	same := subtle.ConstantTimeCompare(want[:], got[:]) == 1
	switch {
	case s.closed:
		return nil, StatusBusy
	case a.Secret != nil && same && is != nil && is.making:
		return nil, StatusBusy
	case a.Secret != nil && same && is != nil:
		is.making = true
		return nil, StatusOK
	case a.Secret != nil && same && l != nil:
		return l, StatusOK
	case a.Secret == nil && is != nil && is.instance == a.Instance && !is.making:
		return nil, StatusIssued // the answer was lost
	case a.Secret == nil && l == nil && is == nil && possible(a.Name) && s.allowed(req, a.Name):
		return nil, s.room(host)
	}
	return nil, StatusRefused
}

func (s *Server) allowed(req *transport.Request, name string) bool {
	return s.Allow == nil || s.Allow(req, name)
}

// expire forgets secrets that nobody has used in time. The caller holds s.mu.
func (s *Server) expire(now time.Time) {
	for name, is := range s.issued {
		if now.After(is.until) && !is.making {
			delete(s.issued, name)
		}
	}
	for k, sess := range s.tokens {
		if now.After(sess.until) {
			delete(s.tokens, k)
		}
	}
}

// issue issues a secret. There is no log until the client uses it: if the answer is lost, the name
// is free again after IssueTime, and until then for the instance that has asked. The caller holds
// s.mu.
func (s *Server) issue(a *openArgs, host string) Secret {
	is := s.issued[a.Name]
	if is == nil {
		is = &issue{instance: a.Instance, host: host}
		_, _ = rand.Read(is.secret[:]) // never fails, by its documentation
		is.owner = ownerOf(&is.secret)
		s.issued[a.Name] = is
		s.ctr.issued.Add(1)
	}
	is.until = time.Now().Add(s.lim.IssueTime)
	return is.secret
}

// begin begins a session on l for an owner, and ends the previous one.
func (s *Server) begin(ctx context.Context, back *transport.Backward, l *Log, a *openArgs) openRes {
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
	old, again, fenced := s.fence(l, a)
	if fenced {
		return s.refuse(StatusFenced)
	}
	prep, err := l.log.Prepare(ctx, a.Instance)
	old.abort()
	switch {
	case errors.Is(err, region.ErrPinned), err != nil && s.ctx.Err() != nil:
		return s.refuse(StatusBusy) // the old session is over, but its operations still run
	case err != nil:
		s.log.Error("push: session not begun", zap.String("log", l.name), zap.Error(err))
		return s.refuse(StatusLost)
	}
	id := newSessionID()
	if s.Began != nil && !s.Began(l, id, again) {
		return s.refuse(StatusLost)
	}
	return s.admit(back, l, prep, a, id)
}

// fence ends the session of l for calls, unless the opening instance was fenced itself: an instance
// that resumes after another has opened the log is told so, so that two of them do not fence each
// other forever. The instance in the header of the log decides, which a restart of the server does
// not change. The claim only adds to it whoever could not finish taking over, because operations were
// still running: otherwise the fenced instance could come before its next try.
func (s *Server) fence(l *Log, a *openArgs) (old *session, again, fenced bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	again = l.log.Instance() == a.Instance
	if a.Resume && (l.claim != a.Instance || !l.opened && s.Forgetful) {
		return nil, false, true
	}
	l.claim, l.opened = a.Instance, true
	old = l.session
	s.drop(old)
	return old, again, false
}

// admit adds the new session.
func (s *Server) admit(back *transport.Backward, l *Log, prep *commitlog.Prepared, a *openArgs, id SessionID) openRes {
	sess := &session{l: l, id: key(id), back: back, prep: prep, turn: make(chan struct{}, 1)}
	_, _ = rand.Read(sess.token[:])
	res := openRes{Opened: opened{Session: sess.id, Answer: prep.Answer()}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return openRes{Status: StatusBusy}
	}
	l.session, l.last = sess, id
	s.sessions[sess.id] = sess
	res.Opened.Pressure = l.pressure
	if a.Native && s.Addr != "" {
		sess.until = time.Now().Add(s.lim.TokenTime)
		s.tokens[sess.token] = sess
		res.Opened.Commit = &commitAt{Token: sess.token, Addr: s.Addr, Milliseconds: uint32(s.lim.TokenTime.Milliseconds())}
	}
	s.ctr.opens.Add(1)
	s.log.Info("push: session", zap.String("log", l.name), zap.Uint32("epoch", res.Opened.Answer.Epoch))
	return res
}
