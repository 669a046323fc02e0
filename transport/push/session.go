package push

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
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
	s.native.rest = s.cfg.times.most
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
	err := rendezvous.Keep(ctx, s.cfg.times.least, s.cfg.times.most, func() error {
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

// Close ends the session, here and, within 15 s and as far as ctx permits, at the server. Unfinished appends
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

// errOpenTimeout is the cause when an attempt has taken too long.
var errOpenTimeout = errors.New("push: no session in time")

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
	err = rendezvous.Keep(ctx, s.cfg.times.least, s.cfg.times.most, func() (err error) {
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

// attempt calls OPEN once, and begins to append on the best rung available.
func (s *Session) attempt(ctx context.Context) (lostFunc, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.times.open, errOpenTimeout)
	defer cancel()
	a := openArgs{
		Name: s.name, Secret: s.cfg.Secret, Instance: s.instance, Resume: s.resume,
		Capacity: s.cfg.Capacity, Native: s.cfg.Best == Native && s.native.wanted(time.Now()),
	}
	var res openRes
	if err := call(ctx, s.rpc, procOpen, a.append(nil), maxResults, res.parse); err != nil {
		return nil, err
	}
	o := &res.Opened
	switch {
	case res.Status != StatusOK:
		return nil, res.Status
	case o.Commit != nil:
		s.native.addr = o.Commit.Addr
		lost, err := s.openNative(ctx, o)
		if err == nil || final(err) || ctx.Err() != nil {
			return lost, err
		}
		s.cfg.Logger.Info("push: no commit connection, appending by call", zap.String("log", s.name), zap.Error(err))
	case a.Native:
		s.native.addr = ""
	}
	return s.openAppend(o)
}

// now sets the current session.
func (s *Session) now(r Rung, k key, c *rdmap.Conn, a *commitlog.Answer) {
	s.mu.Lock()
	s.rung, s.server, s.conn = r, k, c
	s.mu.Unlock()
	s.cfg.Logger.Info("push: session", zap.String("log", s.name), zap.Stringer("rung", r), zap.Uint32("epoch", a.Epoch))
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
	ctx, cancel := context.WithTimeout(ctx, s.cfg.times.open)
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

// errReply: no server of this version gives such an answer.
var errReply = errors.New("push: the server's reply cannot be decoded")

// maxResults limits the results of a call, in octets.
const maxResults = 512

// call makes one call and reads its results, of at most most octets, with parse.
func call(ctx context.Context, caller rpc.Caller, proc uint32, args []byte, most int, parse func(*xdr.Decoder)) error {
	c := rpc.Call{Prog: Program, Vers: Version, Proc: proc, Args: args, MaxResults: most}
	return rendezvous.Call(ctx, caller, &c, ErrNoProgram, errReply, parse)
}

// bye calls CLOSE. If the call is lost, that does no harm.
func (s *Session) bye(ctx context.Context, k key) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.times.open)
	defer cancel()
	_ = call(ctx, s.rpc, procClose, xdr.AppendFixedOpaque(nil, k[:]), maxResults, func(d *xdr.Decoder) { d.Uint32() })
}

// openAppend begins to append by call.
func (s *Session) openAppend(o *opened) (lostFunc, error) {
	c := &caller{s: s, session: o.Session, level: level(o.Answer.Persistent)}
	s.now(Append, o.Session, nil, &o.Answer)
	own, cancel := context.WithCancelCause(s.ctx)
	ctx, err := s.p.OpenCarrier(own, c, &o.Answer)
	if err != nil {
		cancel(err)
		return nil, err
	}
	return func() (err error) {
		defer func() { cancel(err) }()
		if s.native.addr != "" {
			return s.better(ctx)
		}
		<-ctx.Done()
		return context.Cause(ctx)
	}, nil
}

// caller carries records by APPEND. Whether its errors are final, the next OPEN will tell.
type caller struct {
	s       *Session
	session key
	level   commitlog.Level // with which the session was opened
	args    []byte
}

var _ commitlog.Carrier = (*caller)(nil)

// Carry implements commitlog.Carrier.
func (c *caller) Carry(ctx context.Context, seq uint64, payloads [][]byte) (head uint64, err error) {
	for len(payloads) > 0 {
		n := c.some(payloads)
		a := appendArgs{Session: c.session, Seq: seq, Records: payloads[:n]}
		c.args = a.append(c.args[:0])
		res, err := c.do(ctx, procAppend, c.args)
		if err != nil {
			return 0, err
		}
		if res.Next < seq+uint64(n) || res.Level != c.level {
			return 0, fmt.Errorf("%w: next record %d after %d, level %v in a session of %v", errReply, res.Next, seq+uint64(n)-1, res.Level, c.level)
		}
		head, seq, payloads = res.Head, seq+uint64(n), payloads[n:]
	}
	return head, nil
}

// maxCall limits the octets of all records of one APPEND, except for a single larger record.
const maxCall = 512 << 10

// some returns how many records go into one call, at least one.
func (c *caller) some(payloads [][]byte) int {
	octets := 0
	for i, p := range payloads {
		octets += len(p) + 8
		if i == maxRecords || i > 0 && octets > maxCall {
			return i
		}
	}
	return len(payloads)
}

// Head implements commitlog.Carrier.
func (c *caller) Head(ctx context.Context) (uint64, error) {
	res, err := c.do(ctx, procStatus, xdr.AppendFixedOpaque(nil, c.session[:]))
	return res.Head, err
}

// do makes a call, and repeats it while the server is busy.
func (c *caller) do(ctx context.Context, proc uint32, args []byte) (res stateRes, err error) {
	err = rendezvous.Keep(ctx, c.s.cfg.times.least, c.s.cfg.times.most, func() error {
		err := call(ctx, c.s.rpc, proc, args, maxResults, res.parse)
		if err == nil && res.Status != StatusOK {
			return res.Status
		}
		return err
	}, notBusy)
	return res, err
}

func notBusy(err error) bool { return !errors.Is(err, StatusBusy) }
