package redial

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/internal/list"
	"github.com/stag-rdma/stag/internal/setting"
	"github.com/stag-rdma/stag/transport/rpc"
	"go.uber.org/zap"
)

// Defaults of [Config].
const (
	defaultDialTimeout   = 15 * time.Second
	defaultMinDelay      = 100 * time.Millisecond
	defaultMaxDelay      = 15 * time.Second
	defaultSilence       = 15 * time.Second
	defaultTransmissions = 10
)

// Config holds the settings of a [Caller]. Zero fields mean the defaults. New
// copies it; it must not change meanwhile.
type Config struct {
	// Dial opens a connection, which the Caller takes: a transport.Client or transport.StreamClient. It must
	// be set. ctx ends after DialTimeout or with Close, and has the values of a call's. Dial may choose another transport each time, as long as it
	// reaches the same server.
	Dial func(ctx context.Context) (Conn, error)

	// DialTimeout limits the time of one Dial. If zero, 15 s.
	DialTimeout time.Duration

	// MinDelay and MaxDelay limit the wait before another attempt, after one that has failed or
	// whose connection ended without a single reply. The wait doubles each time, and is shortened
	// at random by up to half. After a connection that has worked there is no wait. If zero, 100
	// ms and 15 s.
	MinDelay, MaxDelay time.Duration

	// Patience is how long a call waits for a connection. If zero, until its context ends.
	Patience time.Duration

	// Silence is how long a connection may receive nothing after something was sent that has no answer, whether
	// or not somebody still waits for it. Then it is closed, and Repeatable calls are sent again on another
	// connection. After half of that time a NULL call asks whether the server is there, if there is a credit
	// for it. The same happens if calls wait for a credit while others, whose callers left that long ago,
	// hold some; and if a live server has not answered a call for sixteen times as long: it has lost it.
	// If zero, 15 s, less than most deadlines; if negative, there is no limit.
	Silence time.Duration

	// Transmissions is how often a call may be sent, the first time included, before it fails when
	// its connection ends: a call that ends every connection must not be sent forever. If zero,
	// 10; if negative, there is no limit.
	Transmissions int

	// Issue, if set, is called before a call is sent for the first time, with the XID that the
	// call keeps however often it is sent. It may block, to make a durable note of the call. If it
	// returns an error, the call fails and is not sent.
	Issue func(ctx context.Context, xid uint32, call *rpc.Call) error

	// Trace has functions that are called when something happens. Its fields may be nil.
	Trace Trace

	// Logger receives the ends and beginnings of connections. If nil, nothing is logged.
	Logger *zap.Logger
}

// Trace has functions that a [Caller] calls. They must not block, and must not use the
// Caller.
type Trace struct {
	// Connected: the nth connection is established.
	Connected func(n int)
	// Failed: an attempt failed. The next one follows after wait at the earliest.
	Failed func(err error, wait time.Duration)
	// Lost: the connection has ended.
	Lost func(err error)
	// Retransmit: a call is sent again, for the nth time in total; n starts at 2.
	Retransmit func(xid, prog, vers, proc uint32, n int)
}

// fill returns a checked copy of c with the defaults in place.
func (c *Config) fill() (*Config, error) {
	var f Config
	if c != nil {
		f = *c
	}
	err := setting.Check(
		setting.Time("DialTimeout", f.DialTimeout), setting.Time("MinDelay", f.MinDelay), setting.Time("MaxDelay", f.MaxDelay),
		setting.Time("Patience", f.Patience),
	)
	f.DialTimeout = cmp.Or(f.DialTimeout, defaultDialTimeout)
	f.MinDelay = cmp.Or(f.MinDelay, defaultMinDelay)
	f.MaxDelay = cmp.Or(f.MaxDelay, defaultMaxDelay)
	f.Silence = cmp.Or(f.Silence, defaultSilence)
	f.Transmissions = cmp.Or(f.Transmissions, defaultTransmissions)
	if f.Logger == nil {
		f.Logger = zap.NewNop()
	}
	switch {
	case f.Dial == nil:
		err = setting.Error("Dial must be set")
	case err == nil && f.MinDelay > f.MaxDelay:
		err = setting.Error("MinDelay is %v, want at most MaxDelay, %v", f.MinDelay, f.MaxDelay)
	}
	if err != nil {
		return nil, fmt.Errorf("redial: %w", err)
	}
	return &f, nil
}

// Caller is an [rpc.Caller] that outlives its connections. When one ends, the next call opens
// another. Calls that were not sent yet, Repeatable ones without a reply, and NULL calls are sent
// again, with the same XIDs. Their memory is registered again, because STags end with their stream
// (RFC 8166 Section 8.2.2.3 leaves the rest to the upper layer, which recognizes duplicates by their
// XIDs). Other calls fail with an [rpc.OutcomeError]: nobody knows whether they have run.
//
// It is safe for concurrent use. It has no goroutine of its own but while it dials,
// for all callers. While calls are outstanding, a timer watches for silence. An idle Caller has no timer,
// and notices a lost connection when it is next used.
type Caller struct {
	cfg    *Config
	xid    atomic.Uint32
	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	mu        sync.Mutex
	link      *link              // nil: none
	dialing   *dialing           // the current attempt; nil: none
	back      backoff            // between attempts
	notBefore time.Time          // when the next attempt may begin
	lastErr   error              // why there is no connection
	made      int                // connections made
	old       map[*link]struct{} // ended connections with calls that have not noticed it
	past      rpc.Stats          // of earlier connections
	repeats   atomic.Uint64      // calls sent again
	silent    uint64             // connections given up for silence
	out       list.List[pending] // calls sent for which somebody waits, the oldest first
	left      list.List[pending] // those whose memory a connection still uses, in the order in which their callers left
	idle      []*pending
	watch     silence
}

var _ rpc.Caller = (*Caller)(nil)

// New returns a Caller that opens connections when they are needed. To find out at once
// whether the server is there, use [Caller.Connect].
func New(cfg *Config) (*Caller, error) {
	c, err := cfg.fill()
	if err != nil {
		return nil, err
	}
	r := &Caller{cfg: c, back: backoff{least: c.MinDelay, most: c.MaxDelay}, old: make(map[*link]struct{})}
	r.xid.Store(rand.Uint32())
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r, nil
}

// Do implements [rpc.Caller]. Besides the errors of its connections it returns *OpError if there was no
// connection before Patience or ctx ended, and *OutcomeError, which wraps the cause, if the connection
// ended during a call that must not be sent again, or that was sent again without success.
func (r *Caller) Do(ctx context.Context, call *rpc.Call, reply *rpc.Reply) error {
	reply.Release()
	if ctx == nil {
		return rpc.AsOpError(rpc.OpCall, "", setting.Error("the context is nil"))
	}
	t := r.newCall(call)
	err := r.issue(ctx, t)
	if err == nil {
		err = r.do(ctx, t, reply)
	}
	r.endCall(t)
	return err
}

// issue calls Config.Issue for a call.
func (r *Caller) issue(ctx context.Context, t *pending) error {
	if r.cfg.Issue == nil {
		return nil
	}
	return r.cfg.Issue(ctx, t.tx.XID, &t.call)
}

// do sends a call until it has a reply, or must not be sent again.
func (r *Caller) do(ctx context.Context, t *pending, reply *rpc.Reply) error {
	for {
		l, err := r.acquire(ctx, t)
		if err != nil {
			return t.outcome(err, t.tx.Sent > 0)
		}
		err = l.Do(ctx, &t.call, reply)
		ended := r.release(l, t, err)
		if !ended || ctx.Err() != nil || !r.maySend(t) {
			return t.outcome(err, t.tx.Sent > 1 || ended && t.tx.Posted)
		}
	}
}

// maySend reports whether a call whose connection has ended may be sent again.
func (r *Caller) maySend(t *pending) bool {
	if !t.isUnused() {
		return false // the old connection may still write its memory
	}
	if !t.tx.Posted {
		return true
	}
	if r.cfg.Transmissions > 0 && t.tx.Sent >= r.cfg.Transmissions {
		return false
	}
	return t.call.Repeatable || t.call.Proc == nullProc
}

// Stats implements [rpc.Caller]. It returns the sums over all connections; Accepted is the number of
// connections. Credits and InFlight are those of the current connection. Calls counts
// transmissions, of which Retransmits were repeats.
func (r *Caller) Stats() rpc.Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.past
	for l := range r.old {
		addStats(&s, l.Stats())
	}
	if r.link != nil {
		now := r.link.Stats()
		addStats(&s, now)
		s.Credits, s.InFlight, s.Connections = now.Credits, now.InFlight, now.Connections
	}
	s.Accepted = uint64(r.made)
	s.Retransmits, s.Silences = r.repeats.Load(), r.silent
	return s
}

// add adds the counters of another connection.
func addStats(s *rpc.Stats, o rpc.Stats) {
	s.Calls += o.Calls
	s.Replies += o.Replies
	s.OctetsRead += o.OctetsRead
	s.OctetsWritten += o.OctetsWritten
	s.OctetsInline += o.OctetsInline
	s.OctetsExposed += o.OctetsExposed
	s.Dones += o.Dones
	s.Padded += o.Padded
	s.Errors += o.Errors
	s.Dropped += o.Dropped
	s.Invalidated += o.Invalidated
	s.Registered += o.Registered
	s.Reused += o.Reused
	s.OctetsLent += o.OctetsLent
	s.ReadSegments += o.ReadSegments
	s.WriteSegments += o.WriteSegments
	s.ReplySegments += o.ReplySegments
	s.LongCalls += o.LongCalls
	s.OctetsOffered += o.OctetsOffered
	s.BackwardCalls += o.BackwardCalls
	s.BackwardReplies += o.BackwardReplies
}

// Close implements [rpc.Caller]: it ends the connection and opens no other one.
func (r *Caller) Close() error {
	r.cancel()
	r.mu.Lock()
	l := r.link
	r.watch.stop()
	r.mu.Unlock()
	if l == nil {
		return nil
	}
	return l.Close()
}

// closedErr returns the error of calls after Close.
func closedErr() error { return rpc.AsOpError(rpc.OpCall, "", net.ErrClosed) }
