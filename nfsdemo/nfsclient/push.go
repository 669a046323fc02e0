package nfsclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/stag-rdma/stag/internal/setting"
	"github.com/stag-rdma/stag/nfsdemo/internal/pushfile"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/push"
	"github.com/stag-rdma/stag/transport/rpc"
	"go.uber.org/zap"
)

// Defaults of [PushConfig].
const (
	defaultPushCapacity = 16 << 20
	DefaultPushRecord   = 256 << 10
	defaultPushInFlight = 8
	defaultPushOpenTime = 10 * time.Second
)

// PushConfig says how files are written by push (docs/pushfile.md): WRITEs are appended to a log of
// this client at the server, which acknowledges them when they are durable and applies them in the
// background. Zero fields mean the defaults.
type PushConfig struct {
	// Log is the name of the log: 1 to 64 of A-Z a-z 0-9 . _ - with no dot at the beginning.
	// It must be set. Only one process at a time may use it: another one ends the session.
	Log string
	// Secret proves the right to the log: random octets that are kept durably before Dial; see
	// [push.Config]. It must be set.
	Secret push.Secret
	// Capacity is the size of a new log's ring in octets. If zero, 16 MiB.
	Capacity uint64
	// Record limits the octets of a file in one record. InFlight is the number of records in
	// flight for one file. The server may ask for less. If zero, 256 KiB and 8.
	Record, InFlight int
	// Best is the first way of appending that is tried: [push.Native], then [push.Append]. If zero, push.Native.
	Best push.Rung
	// OpenTimeout limits the time for opening the log first. If zero, 10 s.
	OpenTimeout time.Duration
}

// fill returns a checked copy of c with the defaults in place.
func (c *PushConfig) fill() (*PushConfig, error) {
	f := *c
	err := setting.Check(
		setting.Count("Push.Record", f.Record), setting.Count("Push.InFlight", f.InFlight),
		setting.Int("Push.Best", int(f.Best), int(push.Native), int(push.Append)),
		setting.Time("Push.OpenTimeout", f.OpenTimeout),
	)
	f.Capacity = cmp.Or(f.Capacity, defaultPushCapacity)
	f.Record = cmp.Or(f.Record, DefaultPushRecord)
	f.InFlight = cmp.Or(f.InFlight, defaultPushInFlight)
	f.OpenTimeout = cmp.Or(f.OpenTimeout, defaultPushOpenTime)
	return &f, err
}

// Errors of push-mode writes.
var (
	// ErrNoPush: this client does not push. An error with it also wraps the reason.
	ErrNoPush = errors.New("files are not written by push")
	// ErrRecalled: somebody else wants the file, or the PushFile is closed.
	ErrRecalled = errors.New("the server has taken the file back (use WRITE)")

	errNoPushConfig = errors.New("Config.Push is not set, or the client was not made by Dial")
	errNoBackward   = errors.New("profile rfc5666 has no backward direction, by which files are recalled")
)

// pusher writes files by push. It has one session of a log, and a goroutine as long as the session
// lasts.
type pusher struct {
	cfg  *PushConfig
	log  *zap.Logger
	next rpc.Handler // for other programs in the backward direction; may be nil
	host string
	dial func(ctx context.Context, addr string) (net.Conn, error)
	rpc  program // calls pushfile.Program; has no caller until attach

	ctx    context.Context // done after close
	cancel context.CancelFunc
	wg     sync.WaitGroup
	kick   chan struct{} // one slot, full: the server does not know which connection to call on
	turn   chan struct{} // one slot: held by the goroutine that opens the log

	mu      sync.Mutex
	session *push.Session
	why     error                // why there is no session and will be none
	files   map[uint64]*PushFile // by their leases
	opening int                  // OPENs in flight
	over    map[uint64]bool      // leases that were returned meanwhile
}

// newPusher prepares the push-mode writes of a client that is about to be dialed, and switches on
// the backward direction of its connections. It returns nil without Config.Push.
func newPusher(u *URL, cfg *Config) *pusher {
	if cfg.Push == nil {
		return nil
	}
	var t transport.Config
	if cfg.Transport != nil {
		t = *cfg.Transport
	}
	p := &pusher{
		cfg: cfg.Push, log: t.Logger, next: t.Backward.Handler, host: u.Host,
		kick: make(chan struct{}, 1), turn: make(chan struct{}, 1),
		files: make(map[uint64]*PushFile), over: make(map[uint64]bool),
		dial: func(ctx context.Context, addr string) (net.Conn, error) { return dialConn(ctx, addr, cfg) },
	}
	if p.log == nil {
		p.log = zap.NewNop()
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	if t.RFC5666 != nil {
		p.why = errNoBackward
		return p
	}
	t.Backward.Handler, t.Backward.Credits = p, max(t.Backward.Credits, backwardCredits)
	cfg.Transport = &t
	return p
}

// ReadLog returns a reader of a push log at the server: of the records that are not in their files yet, and
// of those to come. Errors are those of [push.NewReader].
func (c *Client) ReadLog(name string, secret push.Secret, cfg *push.ReaderConfig) (*push.Reader, error) {
	return push.NewReader(c.rpc.caller, name, secret, cfg)
}

// backwardCredits is how many recalls are served at a time.
const backwardCredits = 8

// attach gives p the connection of its client.
func (p *pusher) attach(c *Client) {
	if p != nil {
		p.rpc = program{caller: c.rpc.caller, prog: pushfile.Program, vers: pushfile.Version, cred: c.rpc.cred}
		c.push = p
	}
}

// open returns the session; if there is none, it opens the log.
func (p *pusher) open(ctx context.Context) (*push.Session, error) {
	if p == nil {
		return nil, fmt.Errorf("%w: %w", ErrNoPush, errNoPushConfig)
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	p.mu.Lock()
	s, why := p.session, p.why
	p.mu.Unlock()
	switch {
	case why != nil:
		return nil, fmt.Errorf("%w: %w", ErrNoPush, why)
	case s != nil && s.Err() == nil:
		return s, nil
	case s != nil:
		p.log.Info("nfsclient: push log ended, opened again", zap.Error(s.Err()))
	}
	s, err := p.dialLog(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	if p.session, p.why = s, err; err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoPush, err)
	}
	return s, nil
}

// dialLog opens the log.
func (p *pusher) dialLog(ctx context.Context) (*push.Session, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.cfg.OpenTimeout, errPushTime)
	defer cancel()
	s, err := push.Dial(ctx, p.rpc.caller, p.cfg.Log, &push.Config{
		Secret: p.cfg.Secret, Cred: p.rpc.cred, Capacity: p.cfg.Capacity, Best: p.cfg.Best,
		Host: p.host, Dial: p.dial, Logger: p.log,
		Opened: func(push.Rung, uint32, uint64) { p.look() },
	})
	if err != nil {
		return nil, err
	}
	p.start(func() { p.attend(s) })
	return s, nil
}

var errPushTime = errors.New("the log was not opened in time")

// look is called when the session or the connection for calls has changed. It does not block.
func (p *pusher) look() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// attend runs as long as session s. It tells the server where to call, with a call: the server calls
// back on the connection of the last call of pushfile.Program for a session.
func (p *pusher) attend(s *push.Session) {
	for s.Err() == nil {
		select {
		case <-p.kick:
		case <-p.ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(p.ctx, p.cfg.OpenTimeout)
		if _, err := p.status(ctx, s); err != nil {
			p.log.Info("nfsclient: status of the push log", zap.Error(err))
		}
		cancel()
	}
}

// start runs f in a goroutine that close waits for, unless close has begun.
func (p *pusher) start(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() == nil {
		p.wg.Go(f)
	}
}

// close ends the session. Operations in flight fail.
func (p *pusher) close() {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.cancel()
	s := p.session
	if p.why == nil {
		p.why = net.ErrClosed
	}
	p.mu.Unlock()
	if s != nil {
		ctx, cancel := context.WithTimeout(context.Background(), pushCloseTime)
		defer cancel()
		_ = s.Close(ctx) // the server notices in any case
	}
	p.wg.Wait()
}

// pushCloseTime limits the time for the CLOSE of a log.
const pushCloseTime = 2 * time.Second
