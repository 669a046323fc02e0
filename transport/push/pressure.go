package push

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// Pressure asks the client that appends to l to keep at most window octets of the ring in use for
// records that were not released, and to wait gap, in milliseconds, between two groups of
// records. 0 means no restraint. Pressure revokes no right and refuses nothing. The request goes
// to the client by a call in the backward direction (RFC 8167), and with every later OPEN.
//
// An error means that the current client could not be asked: *rpc.RPCError if one of the
// sides has no backward direction, *rpc.OpError if its connection has ended, a Status if it
// does not know the session. The error is nil if there is no session.
func (l *Log) Pressure(ctx context.Context, window uint64, gap time.Duration) error {
	p := pressure{Window: window, Gap: uint32(min(max(gap.Milliseconds(), 0), math.MaxUint32))}
	s := l.s
	s.mu.Lock()
	l.pressure = p
	sess := l.session
	s.mu.Unlock()
	if sess == nil {
		return nil
	}
	a := pressureArgs{Session: sess.id, Pressure: p}
	call := rpc.Call{Prog: callbackProgram, Vers: Version, Proc: procPressure, Args: a.append(nil)}
	var reply rpc.Reply
	defer reply.Release()
	if err := sess.back.Do(ctx, &call, &reply); err != nil {
		return err
	}
	if err := reply.Header.Err(); err != nil {
		return err
	}
	d := xdr.NewDecoder(reply.Results)
	st := Status(d.Uint32())
	if err := d.End(); err != nil || st == StatusOK {
		return err
	}
	return st
}

// Callbacks is the [rpc.Handler] for the calls that servers make to the sessions of a
// client. Set it as Backward.Handler of the RPC clients (transport.Config), and as
// Config.Callbacks of the sessions. The zero value is ready.
type Callbacks struct {
	mu       sync.Mutex
	sessions map[key]*Session
}

var _ rpc.Handler = (*Callbacks)(nil)

// ServeRPC implements [rpc.Handler].
func (c *Callbacks) ServeRPC(_ context.Context, req *rpc.Request, resp *rpc.Response) {
	d := xdr.NewDecoder(req.Args)
	var a pressureArgs
	switch {
	case req.Prog != callbackProgram:
		resp.Stat = xdr.ProgUnavail
		return
	case req.Vers != Version:
		resp.ProgMismatch(Version, Version)
		return
	case req.Proc == procPressure:
		a.parse(&d)
	case req.Proc != procNull:
		resp.Stat = xdr.ProcUnavail
		return
	}
	switch {
	case d.End() != nil:
		resp.Stat = xdr.GarbageArgs
	case req.Proc == procPressure:
		resp.Results = xdr.AppendUint32(resp.Results, uint32(c.press(&a)))
	}
}

// press passes a request on to its session.
func (c *Callbacks) press(a *pressureArgs) Status {
	c.mu.Lock()
	s := c.sessions[a.Session]
	c.mu.Unlock()
	if s == nil {
		return StatusStale
	}
	s.restrain(a.Pressure)
	return StatusOK
}

// moved is called when the name of a session at the server changes; zeros mean none. A nil c does
// nothing.
func (c *Callbacks) moved(s *Session, from, to key) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sessions == nil {
		c.sessions = make(map[key]*Session)
	}
	delete(c.sessions, from)
	if to != (key{}) {
		c.sessions[to] = s
	}
}

// restrain applies what the server has asked for.
func (s *Session) restrain(p pressure) {
	s.p.Restrain(p.Window, time.Duration(p.Gap)*time.Millisecond)
}
