package replies

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/transport/internal/rendezvous"
	"github.com/stag-rdma/stag/transport/redial"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

// dial makes a connection for calls, and offers the log on it before any other call. If the log cannot be
// offered, calls work, but without records.
func (c *Client) dial(ctx context.Context) (redial.Conn, error) {
	caller, err := c.cfg.Redial.Dial(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.caller = caller
	c.mu.Unlock()
	if err := c.offer(ctx, caller); err != nil {
		c.cfg.Logger.Info("replies: log not offered", zap.Error(err))
		if !errors.Is(err, ErrNoProgram) {
			c.again()
		}
	}
	return caller, nil
}

// again wakes reconnect.
func (c *Client) again() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// reconnect offers the log again when its connection has ended but the one for calls has not. If that has
// ended too, the next one begins with an offer: see dial. While calls are held it makes that one.
func (c *Client) reconnect() {
	least, most := cmp.Or(c.cfg.Redial.MinDelay, 20*time.Millisecond), cmp.Or(c.cfg.Redial.MaxDelay, 5*time.Second)
	for {
		select {
		case <-c.kick:
		case <-c.ctx.Done():
			return
		}
		_ = rendezvous.Keep(c.ctx, least, most, c.offerAgain, over) // refused has the error
	}
}

// offerAgain offers the log if it has no connection. If the connection for calls has ended too and calls are held, it
// makes another one: those that wait for records do not call, so nobody else would.
func (c *Client) offerAgain() error {
	c.mu.Lock()
	caller, live, held := c.caller, c.conn != nil, c.held > 0
	c.mu.Unlock()
	if live {
		return nil
	}
	err := c.offer(c.ctx, caller)
	if err == nil {
		return nil
	}
	c.cfg.Logger.Info("replies: log not offered", zap.Error(err))
	_, ofLog := errors.AsType[*logError](err)
	if !held || ofLog || errors.Is(err, ErrNoProgram) || errors.Is(err, errBusy) {
		return err
	}
	return &logError{cmp.Or(c.null(), err)} // look whether that has offered the log
}

// null calls NULL, for which rpc makes a connection if it has none that works.
func (c *Client) null() error {
	ctx, cancel := context.WithTimeout(c.ctx, offerTime)
	defer cancel()
	call := rpc.Call{Prog: Program, Vers: Version, Proc: procNull}
	return rendezvous.Call(ctx, c.rpc, &call, ErrNoProgram, errOffer, func(*xdr.Decoder) {})
}

// over reports whether err says that the server does not push replies, or that a connection for calls has ended.
func over(err error) bool {
	if _, ok := errors.AsType[*logError](err); ok {
		return false
	}
	if _, ok := errors.AsType[*verbs.ConnError](err); ok {
		return true
	}
	return errors.Is(err, ErrNoProgram) || errors.Is(err, net.ErrClosed)
}

// logError is an error of the connection of the log. The one for calls goes on, and so do the attempts.
type logError struct{ err error }

func (e *logError) Error() string { return "connection of the log: " + e.err.Error() }
func (e *logError) Unwrap() error { return e.err }

// Offered returns nil while the server pushes replies into the log. Otherwise replies come
// without records, and Call returns them at once. The error says why: ErrNoProgram, or the error
// of the last attempt.
func (c *Client) Offered() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		return nil
	}
	return c.refusal
}

// refused notes why the log is not offered.
func (c *Client) refused(err error) {
	c.mu.Lock()
	c.refusal = err
	c.mu.Unlock()
}

// offerTime is how long an attempt to offer the log may take.
const offerTime = 10 * time.Second

// offer binds the connection of caller to the log, and connects the log if necessary.
func (c *Client) offer(ctx context.Context, caller rpc.Caller) (err error) {
	defer func() {
		if err != nil {
			c.refused(err)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, offerTime)
	defer cancel()
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	c.mu.Lock()
	a := offerArgs{Client: c.key, Epoch: c.epoch, Connect: c.conn == nil}
	c.mu.Unlock()
	var res offerRes
	if err := call(ctx, caller, procOffer, &a, &res); err != nil {
		return err
	}
	switch res.Status {
	case statusOK:
		return nil
	case statusConnect:
		if err := c.connect(ctx, &res); err != nil {
			return &logError{err}
		}
		return nil
	case statusBusy:
		return errBusy
	default:
		return fmt.Errorf("%w: status %d", errOffer, res.Status)
	}
}

// call calls OFFER.
func call(ctx context.Context, caller rpc.Caller, proc uint32, a *offerArgs, res *offerRes) error {
	c := rpc.Call{Prog: Program, Vers: Version, Proc: proc, Args: a.append(nil)}
	return rendezvous.Call(ctx, caller, &c, ErrNoProgram, errOffer, res.parse)
}

// connect makes the connection of the log, and ends the previous session.
func (c *Client) connect(ctx context.Context, res *offerRes) error {
	c.mu.Lock()
	if c.life != res.Life {
		c.life = res.Life
		c.wake()
	}
	c.mu.Unlock()
	prep, err := c.log.Prepare(ctx, [16]byte{})
	if err != nil {
		return err
	}
	cfg := rdmap.Config{Startup: rdmap.Startup{Extensions: verbs.ExtCommit | verbs.Ext7306}}
	conn, err := rendezvous.Dial(ctx, &res.At, c.cfg.Host, c.cfg.Dial, &cfg)
	if err != nil {
		return err
	}
	a, err := prep.Attach(conn)
	if err == nil {
		err = conn.Post([]verbs.WR{{Op: verbs.OpSend, Head: a.Append(nil)}})
	}
	if err == nil {
		_, err = conn.Recv(ctx) // from here on the server names records
	}
	if err != nil {
		conn.Abort(nil)
		return err
	}
	c.live(conn)
	return nil
}

// live serves the connection of the log in a goroutine.
func (c *Client) live(conn *rdmap.Conn) {
	c.mu.Lock()
	old := c.conn
	c.conn = conn
	c.wake()
	c.mu.Unlock()
	if old != nil {
		old.Abort(nil)
	}
	if c.ctx.Err() != nil {
		conn.Abort(nil) // Close did not see it
	}
	c.cfg.Logger.Info("replies: log connected", zap.Stringer("to", conn.RemoteAddr()))
	c.wg.Go(func() {
		err := conn.Serve()
		c.mu.Lock()
		current := c.conn == conn
		if current {
			c.conn, c.refusal = nil, err
		}
		c.mu.Unlock()
		if current && c.ctx.Err() == nil {
			c.cfg.Logger.Info("replies: connection of the log ended", zap.Error(err))
			c.again()
		}
	})
}
