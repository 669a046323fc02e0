package push

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/internal/rendezvous"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

// errOpenTimeout is the cause when Config.OpenTimeout is over.
var errOpenTimeout = errors.New("push: no session within OpenTimeout")

// lostFunc waits for the end of a session and returns why it ended.
type lostFunc func() error

// keep opens another session whenever one has ended, until Close.
func (s *Session) keep(lost lostFunc) {
	defer close(s.kept)
	for {
		err := lost()
		if s.ctx.Err() != nil {
			return
		}
		s.cfg.Logger.Info("push: session lost", zap.String("log", s.name), zap.Error(err))
		if !s.final(err) {
			lost, err = s.reopen(s.ctx)
		}
		if s.final(err) || s.ctx.Err() != nil {
			s.fail(s.error(err))
			return
		}
	}
}

// reopen tries to open until there is a session, ctx has ended, or the error is final.
func (s *Session) reopen(ctx context.Context) (lost lostFunc, err error) {
	err = rendezvous.Keep(ctx, s.cfg.MinDelay, s.cfg.MaxDelay, func() (err error) {
		if lost, err = s.attempt(ctx); err != nil {
			s.cfg.Logger.Info("push: not opened", zap.String("log", s.name), zap.Error(err))
		}
		return err
	}, s.final)
	s.resume = s.resume || err == nil
	return lost, err
}

// final reports whether another attempt would fail in the same way: because of err, or because
// calls have no connection anymore.
func (s *Session) final(err error) bool { return err != nil && (final(err) || gone(s.rpc, err)) }

// gone reports whether err says that the connection for calls has ended for good. That of a Client
// or StreamClient does not come back; a redial.Caller makes another one.
func gone(caller rpc.Caller, err error) bool {
	switch c := caller.(type) {
	case *transport.Client:
		select {
		case <-c.Conn().Done():
			return true
		default:
			return false
		}
	case *transport.StreamClient:
		for _, late := range [...]error{errOpenTimeout, context.DeadlineExceeded, context.Canceled} {
			if errors.Is(err, late) {
				return false
			}
		}
		_, ok := errors.AsType[*rpc.OpError](err)
		return ok
	default:
		return false
	}
}

// final reports whether another attempt would fail with the same error.
func final(err error) bool {
	if st, ok := errors.AsType[Status](err); ok {
		return !st.temporary()
	}
	if _, ok := errors.AsType[*rpc.RPCError](err); ok {
		return true
	}
	if e, ok := errors.AsType[*xdr.RPCStatusError](err); ok {
		return e.Denied || e.Accept != xdr.SystemErr
	}
	for _, e := range [...]error{
		ErrNoProgram, ErrNoSecret, errReply,
		commitlog.ErrBadAnswer, commitlog.ErrLostRecords,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// attempt opens once, on the best rung available.
func (s *Session) attempt(ctx context.Context) (lostFunc, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.OpenTimeout, errOpenTimeout)
	defer cancel()
	o, err := s.callOpen(ctx)
	if err != nil {
		return nil, err
	}
	if o.Commit != nil {
		s.native.addr = o.Commit.Addr
		lost, err := s.openNative(ctx, o)
		if err == nil || final(err) || ctx.Err() != nil {
			return lost, err
		}
		s.cfg.Logger.Info("push: no commit connection, appending by call", zap.String("log", s.name), zap.Error(err))
	}
	return s.openAppend(o)
}

// now sets the current session.
func (s *Session) now(r Rung, k key, c *rdmap.Conn, a *commitlog.Answer) {
	s.mu.Lock()
	s.rung, s.server, s.conn = r, k, c
	s.mu.Unlock()
	s.cfg.Logger.Info("push: session", zap.String("log", s.name), zap.Stringer("rung", r), zap.Uint32("epoch", a.Epoch))
	if s.cfg.Opened != nil {
		s.cfg.Opened(r, a.Epoch, a.NextSeq)
	}
}

// nativeTries remembers whether commit connections are worth trying.
type nativeTries struct {
	addr   string        // of the last one; "": the server has told none
	failed int           // connections in a row without an acknowledgment
	rest   time.Duration // after the first of them; each further one doubles it
	until  time.Time     // end of the rest
}

// mostFailures is how many commit connections in a row may fail before the client stays on the rung below for a while.
const mostFailures = 3

// mostDoublings limits how often the rest is doubled.
const mostDoublings = 8

func (n *nativeTries) wanted(now time.Time) bool {
	return n.failed < mostFailures || !now.Before(n.until)
}

// ended notes how a commit connection ended; useful says that something was acknowledged on it.
func (n *nativeTries) ended(useful bool, err error, now time.Time) {
	if useful {
		n.failed = 0
		return
	}
	n.failed++
	if _, refused := errors.AsType[*verbs.TerminateError](err); refused || errors.Is(err, commitlog.ErrNoExtension) {
		n.failed = max(n.failed, mostFailures) // this is how peers show that they lack the extension
	}
	n.until = now.Add(n.rest << min(n.failed-1, mostDoublings))
}

// openNative makes the commit connection of a session.
func (s *Session) openNative(ctx context.Context, o *opened) (lostFunc, error) {
	c, err := s.connect(ctx, o.Commit)
	if err != nil {
		s.native.ended(false, err, time.Now())
		return nil, err
	}
	s.now(Native, o.Session, c, &o.Answer)
	return func() error {
		select {
		case <-c.Done():
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
		p := s.p.Place()
		s.native.ended(p.Acked >= p.Next, c.Err(), time.Now())
		return c.Err()
	}, nil
}

// errBetter ends a session by call, because a commit connection is worth trying again.
var errBetter = errors.New("push: trying a commit connection again")

// better waits until a commit connection is worth trying again and its address can be reached, or ctx ends. It looks
// before the session by call ends: appends would wait for an address that does not answer.
func (s *Session) better(ctx context.Context) error {
	for {
		select {
		case <-time.After(time.Until(s.native.until)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		err := s.reach(ctx)
		if err == nil {
			return errBetter
		}
		if ctx.Err() == nil {
			s.native.ended(false, err, time.Now())
		}
	}
}

// reach opens and closes a connection to the address of commit connections.
func (s *Session) reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.OpenTimeout)
	defer cancel()
	nc, err := rendezvous.Open(ctx, s.native.addr, s.cfg.Host, s.cfg.Dial)
	if err != nil {
		return err
	}
	return nc.Close()
}

// connect makes a connection, shows the token, and waits for the answer.
func (s *Session) connect(ctx context.Context, at *rendezvous.Place) (*rdmap.Conn, error) {
	c, err := rendezvous.Dial(ctx, at, s.cfg.Host, s.cfg.Dial, s.p.Config(nil))
	if err != nil {
		return nil, err
	}
	if c.ConnectionState().Extensions&verbs.ExtCommit == 0 {
		c.Abort(nil)
		return nil, commitlog.ErrNoExtension
	}
	if err := s.p.Attach(ctx, c); err != nil {
		c.Abort(nil)
		return nil, fmt.Errorf("connection of the log: %w", err)
	}
	return c, nil
}
