package redial

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime/debug"
	"time"

	"github.com/stag-rdma/stag/internal/setting"
	"github.com/stag-rdma/stag/transport/rpc"
	"go.uber.org/zap"
)

// Conn is an RPC client on one connection, such as a transport.Client or transport.StreamClient.
type Conn interface {
	rpc.Caller
	// Err returns why the connection has ended, nil if it has not.
	Err() error
	// Abort ends the connection; calls in flight fail with err.
	Abort(err error)
	// Received returns a number that grows when something arrives.
	Received() uint64
}

// link is a connection of a Caller. Caller.mu guards the fields.
type link struct {
	Conn
	calls int  // calls that use it
	works bool // a reply has come
}

// Connect opens a connection if there is none. Unlike a call it makes only one attempt and
// returns its error, so that a wrong address shows at the start.
func (r *Caller) Connect(ctx context.Context) error {
	if ctx == nil {
		return rpc.AsOpError(rpc.OpDial, "", setting.Error("the context is nil"))
	}
	return rpc.AsOpError(rpc.OpDial, "", r.attempt(ctx))
}

// acquire enters a call into the current connection, and makes one if there is none.
func (r *Caller) acquire(ctx context.Context, t *pending) (*link, error) {
	if l, err := r.enter(t); l != nil || err != nil {
		return l, err
	}
	parent := ctx
	if r.cfg.Patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.cfg.Patience)
		defer cancel()
	}
	for {
		err := r.attempt(ctx)
		if l, eerr := r.enter(t); l != nil || eerr != nil {
			return l, eerr
		}
		switch {
		case ctx.Err() != nil:
			return nil, r.noConnection(parent, err)
		case lasting(err):
			return nil, rpc.AsOpError(rpc.OpCall, "", err)
		}
	}
}

// lasting reports whether an error of Dial is one that no other attempt can cure: of settings, or of an address.
func lasting(err error) bool {
	_, addr := errors.AsType[*net.AddrError](err)
	_, network := errors.AsType[net.UnknownNetworkError](err)
	return addr || network || errors.Is(err, rpc.ErrConfig)
}

// noConnection returns the error of a call that has waited for a connection in vain.
func (r *Caller) noConnection(ctx context.Context, err error) error {
	r.mu.Lock()
	last := r.lastErr
	r.mu.Unlock()
	if last == nil {
		last = err
	}
	if ctx.Err() == nil {
		addr := ""
		if oe, ok := last.(*rpc.OpError); ok { //nolint:errorlint // the outermost only
			addr, last = oe.Addr, oe.Err
		}
		return &rpc.OpError{Op: rpc.OpDial, Addr: addr, Err: fmt.Errorf("no connection in %v: %w", r.cfg.Patience, last)}
	}
	return rpc.AsOpError(rpc.OpCall, "", fmt.Errorf("%w; no connection: %w", context.Cause(ctx), last))
}

// enter gives a call the current connection, nil if there is none.
func (r *Caller) enter(t *pending) (*link, error) {
	r.mu.Lock()
	l := r.link
	switch {
	case r.ctx.Err() != nil:
		r.mu.Unlock()
		return nil, closedErr()
	case l == nil:
		r.mu.Unlock()
		return nil, nil
	}
	l.calls++
	t.at, t.link = time.Now(), l
	r.watchFrom(t.at, &t.call)
	r.out.Push(&t.place, t)
	r.mu.Unlock()
	t.lend()
	return l, nil
}

// release removes a call from a connection after an attempt that ended with err, and reports
// whether the connection ended during the call.
func (r *Caller) release(l *link, t *pending, err error) (ended bool) {
	var why error
	if err != nil {
		why = l.Err()
	}
	_, refused := errors.AsType[*rpc.RPCError](err)
	r.mu.Lock()
	t.place.Leave()
	if err == nil && !l.works {
		l.works = true
		r.back.reset()
	}
	l.calls--
	first := why != nil && r.link == l && r.ctx.Err() == nil
	if first {
		r.lost(l, why)
	}
	if _, gone := r.old[l]; gone && l.calls == 0 {
		delete(r.old, l)
		addStats(&r.past, l.Stats())
	}
	r.mu.Unlock()
	if first {
		r.cfg.Logger.Warn("transport: connection lost", zap.Error(why))
		if f := r.cfg.Trace.Lost; f != nil {
			f(why)
		}
	}
	return why != nil && !refused
}

// lost forgets the current connection. The caller holds r.mu.
func (r *Caller) lost(l *link, why error) {
	r.link, r.lastErr = nil, why
	r.old[l] = struct{}{}
	r.notBefore = time.Time{}
	if !l.works {
		r.notBefore = time.Now().Add(r.back.next(rand.Float64()))
	}
}

// dialing is an attempt to connect. It belongs to the Caller, not to the call that has asked for it: if it ended with that,
// calls whose deadlines are shorter than a dial takes would never have a connection.
type dialing struct {
	over chan struct{} // closed when err is set
	err  error
}

// attempt waits for the end of one attempt to connect, and begins it if there is none.
func (r *Caller) attempt(ctx context.Context) error {
	r.mu.Lock()
	d := r.dialing
	switch {
	case r.link != nil:
		r.mu.Unlock()
		return nil
	case d == nil:
		d = &dialing{over: make(chan struct{})}
		r.dialing = d
		go r.dial(context.WithoutCancel(ctx), d, time.Until(r.notBefore))
	}
	r.mu.Unlock()
	if err := wait(ctx, r.ctx, d.over); err != nil {
		return err
	}
	return d.err
}

// wait waits for ch, or one of two contexts.
func wait(a, b context.Context, ch <-chan struct{}) error {
	select {
	case <-ch:
		return nil
	case <-a.Done():
		return context.Cause(a)
	case <-b.Done():
		return closedErr()
	}
}

// dial makes the connection after a delay, and ends d.
func (r *Caller) dial(ctx context.Context, d *dialing, delay time.Duration) {
	var c Conn
	err := setting.Error("Dial has not returned")
	defer func() {
		if v := recover(); v != nil { // Dial is the user's, and no call is in this goroutine
			err = setting.Error("Dial has panicked: %v\n%s", v, debug.Stack())
		}
		if err == nil {
			err = r.connect(&link{Conn: c})
		} else if r.ctx.Err() == nil { // the end of the Caller is no failure of the server
			r.failed(err)
		}
		r.mu.Lock()
		d.err, r.dialing = err, nil
		r.mu.Unlock()
		close(d.over)
	}()
	if delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.ctx.Done():
			err = closedErr()
			return
		}
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.DialTimeout)
	defer cancel()
	defer context.AfterFunc(r.ctx, cancel)()
	c, err = r.cfg.Dial(ctx)
	if err == nil && setting.IsNil(c) {
		err = setting.Error("Dial has returned neither a connection nor an error")
	}
}

// connect starts using a new connection.
func (r *Caller) connect(l *link) error {
	r.mu.Lock()
	closed := r.ctx.Err() != nil
	if !closed {
		r.link, r.lastErr = l, nil
		r.made++
	}
	n := r.made
	r.mu.Unlock()
	if closed {
		_ = l.Close() // nobody has used it
		return closedErr()
	}
	r.cfg.Logger.Info("transport: connected", zap.Int("connection", n))
	if f := r.cfg.Trace.Connected; f != nil {
		f(n)
	}
	return nil
}

// failed notes a failed attempt.
func (r *Caller) failed(err error) {
	r.mu.Lock()
	d := r.back.next(rand.Float64())
	r.notBefore = time.Now().Add(d)
	r.lastErr = err
	r.mu.Unlock()
	r.cfg.Logger.Info("transport: no connection", zap.Error(err), zap.Duration("retry", d))
	if f := r.cfg.Trace.Failed; f != nil {
		f(err, d)
	}
}
