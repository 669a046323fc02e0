package push

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/internal/rendezvous"
	"github.com/stag-rdma/stag/transport/rpc"
)

// Errors of a Session.
var (
	// ErrClosed: the Session was closed.
	ErrClosed = errors.New("push: session closed")
	// ErrNoProgram: the server does not have the program.
	ErrNoProgram = errors.New("push: the server does not offer push")
	// ErrNoSecret: Config.Secret is not set.
	ErrNoSecret = errors.New("push: Config.Secret must be set (to what NewSecret returned, and was then kept)")
)

// Session is the client's end of a log. When its connection ends, it opens the log again. It has
// one goroutine until Close.
type Session struct {
	cfg      *Config
	rpc      rpc.Caller
	name     string
	instance key
	p        *commitlog.Producer

	ctx    context.Context // ends with Close, and with a final error
	cancel context.CancelFunc
	kept   chan struct{} // closed when keep has returned

	// Belongs to keep, and to Dial before that.
	resume bool // there was a session
	native nativeTries

	mu     sync.Mutex
	rung   Rung
	server key         // name of the session at the server
	conn   *rdmap.Conn // of the rung Native
	err    error       // final
}

// Dial opens the log name at the server behind caller, begins a session, and returns when records
// can be appended. The Session uses caller until Close, but does not close it. Only a
// redial.Caller survives the end of its connections.
//
// ctx limits only Dial. Errors are of type *Error. If the server has refused, they wrap a Status; if a setting
// is out of range, rpc.ErrConfig.
func Dial(ctx context.Context, caller rpc.Caller, name string, cfg *Config) (*Session, error) {
	s := &Session{rpc: caller, name: name, kept: make(chan struct{})}
	if !possible(name) {
		return nil, s.error(StatusRefused)
	}
	var err error
	if s.cfg, err = cfg.fill(); err != nil {
		return nil, s.error(err)
	}
	s.p = commitlog.NewProducer(s.cfg.Producer)
	s.native.rest = s.cfg.MaxDelay
	_, _ = rand.Read(s.instance[:]) // never fails, by its documentation
	s.ctx, s.cancel = context.WithCancel(context.Background())
	lost, err := s.reopen(ctx)
	if err != nil {
		s.cancel()
		s.p.Close()
		return nil, s.error(err)
	}
	go s.keep(lost)
	return s, nil
}

// error wraps err; nil stays nil and an *Error stays as it is.
func (s *Session) error(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	return &Error{Op: "open", Log: s.name, Err: err}
}

// Append appends a record. When the record is part of the log, it returns its number and the
// level reached. Appends of several goroutines share flushes. Append borrows record until it
// returns. While there is no connection, it waits, but no longer than Config.Producer says.
//
// If the log is full, the error is an *Error with StatusFull, at once: nothing was appended, and the session goes on.
// Somebody must release records (Reader.Release). Other errors are those of [commitlog.Producer.Append]. When the session has ended for good, the error
// is an *Error with the reason; the record may then be in the log.
func (s *Session) Append(ctx context.Context, record []byte) (commitlog.Result, error) {
	if len(record) > s.cfg.MaxRecord {
		return commitlog.Result{}, commitlog.ErrTooLarge
	}
	r, err := s.p.TryAppend(ctx, record)
	if errors.Is(err, commitlog.ErrFull) {
		if err = s.look(ctx); err == nil {
			r, err = s.p.TryAppend(ctx, record)
		}
	}
	if err != nil {
		return r, s.cause(err)
	}
	return r, nil
}

// Begin starts an append; call Wait on the result. See [commitlog.Producer.TryBegin]; when the log is full, it is
// Append.
func (s *Session) Begin(record []byte) (*commitlog.Pending, error) {
	if len(record) > s.cfg.MaxRecord {
		return nil, commitlog.ErrTooLarge
	}
	e, err := s.p.TryBegin(record)
	if errors.Is(err, commitlog.ErrFull) {
		if err = s.look(s.ctx); err == nil {
			e, err = s.p.TryBegin(record)
		}
	}
	return e, s.cause(err)
}

// look asks the server for the head. What others have released may be on its way still, or, on the rung Append, be
// told with the next reply only: that the log is full is the server's word, never the lack of one.
func (s *Session) look(ctx context.Context) error {
	ctx, stop := unlessSilent(ctx, 0, s.cfg.Producer.Silence)
	defer stop()
	defer context.AfterFunc(s.ctx, stop)()
	err := rendezvous.Keep(ctx, s.cfg.MinDelay, s.cfg.MaxDelay, func() error {
		s.mu.Lock()
		c := caller{s: s, session: s.server} // another one when the log was opened again meanwhile
		s.mu.Unlock()
		head, err := c.Head(ctx)
		if err == nil {
			s.p.Released(head)
		}
		return err
	}, s.final)
	switch {
	case err == nil:
		return nil
	case s.ctx.Err() != nil:
		return commitlog.ErrClosed
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return &Error{Op: "append", Log: s.name, Err: err}
}

// cause returns the reason if err only says that the producer is closed, and what the server would say if the log is
// full.
func (s *Session) cause(err error) error {
	switch {
	case errors.Is(err, commitlog.ErrClosed):
		return s.Err()
	case errors.Is(err, commitlog.ErrFull):
		return &Error{Op: "append", Log: s.name, Err: StatusFull}
	}
	return err
}

// Place returns how far s is: the epoch of its session, what that found in the log, and what is acknowledged. See
// [commitlog.Producer.Place].
func (s *Session) Place() commitlog.Place { return s.p.Place() }

// Limit returns the size of the largest record, in octets.
func (s *Session) Limit() int { return min(s.cfg.MaxRecord, s.p.Place().Limit) }

// Rung returns how records are currently appended.
func (s *Session) Rung() Rung {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rung
}

// Err returns why the session has ended for good: ErrClosed after Close. Before that it returns
// nil.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// fail ends the session for good.
func (s *Session) fail(err error) {
	s.mu.Lock()
	if s.err == nil {
		s.err = err
	}
	s.mu.Unlock()
	s.cancel()
	s.p.Close()
}

// Close ends the session, here and, as far as ctx and Config.OpenTimeout permit, at the server. Unfinished appends
// return ErrClosed, and their records may be in the log. Acknowledged records are in the log.
func (s *Session) Close(ctx context.Context) error {
	first := s.Err()
	s.fail(ErrClosed)
	<-s.kept
	s.mu.Lock()
	k, c := s.server, s.conn
	s.mu.Unlock()
	if c != nil {
		_ = c.Close() // nothing is in flight on it
	}
	if k != (key{}) && first == nil {
		s.bye(ctx, k)
	}
	if errors.Is(first, ErrClosed) {
		return nil
	}
	return first
}
