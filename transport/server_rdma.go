package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/internal/list"
	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/transport/internal/execute"
	"github.com/stag-rdma/stag/transport/internal/requester"
	"github.com/stag-rdma/stag/transport/internal/responder"
	"github.com/stag-rdma/stag/transport/internal/stream"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// rdmaServed is a Server's RDMA connection.
type rdmaServed struct {
	s      *Server
	by     *Served
	stop   func() bool // of by.Context; nil: it has none
	rc     *responder.Responder
	ctx    context.Context
	cancel context.CancelFunc
	addr   net.Addr
	card   bool // a card carries it: there is no watchdog that takes the place of the goroutine that polls, so no call runs there
	begun  time.Time
	work   workers
	at     *execute.Origin
	took   time.Duration // by such calls since the last flush; owned by the one that runs
	held   int           // their replies
	here   atomic.Bool   // a call that may block runs in the goroutine that reads, or began there
}

// ServeConn takes conn and serves RPC-over-RDMA on it, as the MPA responder, until the connection
// ends and all its calls are finished. It returns nil if the peer ends the connection in an
// orderly way.
func (s *Server) ServeConn(conn net.Conn) error { return s.serveConn(conn, &s.all, nil, 0) }

// serveConn is ServeConn with octets that have been read already. Its goroutine rests here for as long as the
// client is idle: what only the start needs is in open, since 100 octets more on this stack make it 8 KiB
// instead of 4.
func (s *Server) serveConn(conn net.Conn, by *Served, first []byte, turn execute.Turn) error {
	c, err := s.open(conn, by, first, turn)
	if err != nil {
		return err
	}
	defer c.close()
	err = c.rc.Serve()
	if c.rc.IsDraining() {
		s.gate.Went(peeraddr.Of(conn), c.network(), c.begun, ErrServerClosed)
		return nil
	}
	err = s.gate.Ended(rpc.AsOpError(rpc.OpServe, peeraddr.Of(conn), requester.IgnoreEnd(err)))
	s.gate.Went(peeraddr.Of(conn), c.network(), c.begun, err)
	return err
}

// open admits conn and runs the MPA start-up on it. Close the result.
func (s *Server) open(conn net.Conn, by *Served, first []byte, turn execute.Turn) (_ *rdmaServed, err error) {
	if err := given("connection", conn); err != nil {
		return nil, err
	}
	if err := s.init(); err != nil {
		_ = conn.Close() // the error above says more
		return nil, err
	}
	c := &rdmaServed{s: s, by: by, addr: conn.RemoteAddr()}
	var state *tls.ConnectionState
	if _, secure := conn.(*tls.Conn); secure || s.cfg.TLS.Config != nil {
		outer := conn
		err := s.admitted(conn, func() (err error) { conn, first, state, err = s.cfg.TLS.accept(s.ctx, conn, first); return err })
		if err != nil {
			_, refused := errors.AsType[*rpc.LimitError](err)
			if refused || errors.Is(err, errClear) {
				s.gate.TurnAway(s.ctx, outer, first, err)
			} else {
				s.ctr.TLSFailed.Add(1)
			}
			_ = outer.Close() // crypto/tls has sent its alert
			err = s.gate.Ended(rpc.AsOpError(rpc.OpAccept, peeraddr.Of(outer), err))
			s.gate.Stranger(peeraddr.Of(outer), err)
			return nil, err
		}
	}
	c.rc = responder.New(s.resp, &s.ctr, s.gate, c.addr, c)
	if c.rc.Peer, err = s.gate.Enter(c.addr, c.rc.Mover()); err != nil {
		s.gate.TurnAway(s.ctx, conn, first, err)
		return nil, rpc.AsOpError(rpc.OpAccept, peeraddr.Of(conn), err)
	}
	c.rc.Protection = state
	_, c.card = conn.(rdmap.Device)
	// From here on calls that its client has left on older connections may be late.
	c.at = s.exec.Enter(stream.Below(conn), turn)
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	ec := s.cfg.engine(-1)
	c.rc.Prepare(ec, conn)
	ec.Startup.BufferedInput = first
	c.rc.Conn = rdmap.Server(conn, ec)
	if err := s.addConn(c); err != nil {
		c.rc.Conn.Abort(err)
		c.leave()
		return nil, err
	}
	if err := c.rc.Conn.Handshake(s.ctx); err != nil {
		err = s.gate.Ended(rpc.AsOpError(rpc.OpAccept, peeraddr.Of(conn), err))
		s.gate.Stranger(peeraddr.Of(conn), err)
		c.close()
		return nil, err
	}
	s.ctr.Accepted.Add(1)
	c.begun = time.Now()
	s.gate.Came(peeraddr.Of(conn), c.network())
	c.stop = by.drains(c)
	return c, nil
}

func (c *rdmaServed) close() {
	c.s.dropConn(c)
	c.leave()
}

// leave gives back what a connection takes before the server knows it.
func (c *rdmaServed) leave() {
	if c.stop != nil {
		c.stop()
	}
	c.cancel()
	c.s.exec.Leave(c.at)
	c.rc.Leave()
}

func (c *rdmaServed) Drain() { c.rc.Drain() }
func (c *rdmaServed) Abort() { c.rc.Abort() }

// TLS returns what protects the connection, nil if nothing does.
func (c *rdmaServed) TLS() *tls.ConnectionState { return c.rc.Protection }

// Refuse ends the connection because of err.
func (c *rdmaServed) Refuse(err error) { c.rc.Refuse(err) }

// network is what the log calls the connection.
func (c *rdmaServed) network() string { return stream.NameOf("rdma", c.rc.Protection) }

// Ended cancels the handlers of the connection.
func (c *rdmaServed) Ended(err error) {
	if errors.Is(err, verbs.ErrPanic) {
		c.s.ctr.Panics.Add(1)
	}
	c.at.End() // before the handlers learn it: what one of them has not begun must not begin
	c.cancel()
}

// Lazy asks the handler. It is not asked whether it is ready for the data of a call that is refused, which needs none.
func (c *rdmaServed) Lazy(req *rpc.Request) bool {
	if !rpc.Describe(c.by.Handler, req).Lazy {
		return false
	}
	_, refused := req.Refusal(nil)
	return refused || !rpc.Ready(c.ctx, c.by.Handler, req)
}

// Dispatch runs a call here if it does not block, or if its likes are short and no such call runs
// here: then the watchdog has taken the reading role from it, and it may be the first of many that
// wait for the same disk. Others go to a worker.
func (c *rdmaServed) Dispatch(x *responder.Call, inline bool) {
	x.Resp.Reset()
	x.SetRequest()
	x.Traits = rpc.Traits{}
	if x.Req.GSS == nil && c.s.exec.Opens(&x.Req.CallHeader) { // once: it may come here again
		if inline && c.s.exec.OpensApart(&x.Req.CallHeader, len(x.Req.Args)) {
			x.Own()
			go c.Dispatch(x, false)
			return
		}
		if !c.open(x) {
			c.rc.Finish(x)
			return
		}
	}
	if g := x.Req.GSS; g == nil || !g.Answered() {
		x.Traits = rpc.Describe(c.by.Handler, &x.Req)
	}
	t := &x.Traits
	if !x.Charge(t.Memory) {
		return
	}
	if !inline {
		c.serve(x)
		return
	}
	joins := t.Once && c.s.exec.Duplicates.Running(&x.Req)
	if !t.Blocks && !joins && !c.card {
		c.serve(x)
		return
	}
	if !joins && !c.card && c.s.exec.PaceOf(t, &x.Req).Short(c.s.cfg.Reading.HandlerLimit) && c.here.CompareAndSwap(false, true) {
		c.took += c.timed(x)
		if c.held++; c.held == flushCalls || c.took > flushAfter {
			c.held, c.took = 0, 0
			c.rc.Conn.FlushPosted()
		}
		c.here.Store(false)
		return
	}
	x.Own()
	x.SetRequest()
	c.work.add(c, x)
}

// open opens a call under RPCSEC_GSS. It returns false if the call gets no answer.
func (c *rdmaServed) open(x *responder.Call) bool {
	if x.Req.Cred.Protected() { // else the arguments stay where they are, perhaps at the client
		x.Own()
		x.SetRequest()
	}
	answer := c.s.exec.Open(&x.Req, &x.Resp)
	x.In.Args = x.Req.Args
	return answer
}

// Replies that calls have computed in the reading goroutine leave when there are flushCalls of them, or when these have taken
// flushAfter; those of the last calls of a read, with its end. Choice, with 8 calls in flight: if all that came in one read are
// answered together, the client waits while the server works (WRITE 4K 10 % fewer); if each is answered at once, a caller wakes
// for each (READ and WRITE 64K 15 % fewer). Calls that take longer have nothing to gain from a system call less.
const (
	flushCalls = 4
	flushAfter = 100 * time.Microsecond
)

// timed is serve for a call that may block. It returns how long that took.
func (c *rdmaServed) timed(x *responder.Call) time.Duration {
	p, begun := c.s.exec.PaceOf(&x.Traits, &x.Req), time.Now() // x is reused when it is served
	c.serve(x)
	d := time.Since(begun)
	p.Ran(d, c.s.cfg.Reading.HandlerLimit)
	return d
}

// serve runs the handler and replies.
func (c *rdmaServed) serve(x *responder.Call) {
	if !c.s.exec.Opens(&x.Req.CallHeader) && (!c.s.cfg.AnyCred || x.Req.RPCVers != xdr.RPCVersion || x.Req.Cred.Flavor == xdr.AuthTLS) {
		if h, refused := x.Req.Refusal(nil); refused {
			x.Resp.Refuse(h)
		}
	}
	answer := c.s.exec.Execute(c.ctx, c.by.Handler, &x.Traits, &x.Req, &x.Resp, c.at)
	if !x.Handled() || !answer {
		c.rc.Finish(x)
		return
	}
	c.rc.Reply(x)
}

// workers run calls that may block, each in a goroutine that has no other call meanwhile. A
// goroutine takes the next call when it has finished one, because making it and growing its stack
// costs as much as a short call. Before a worker runs a call, it makes sure that another one is
// coming for the calls that wait. Without calls there are no workers.
type workers struct {
	mu     sync.Mutex
	calls  list.List[responder.Call] // that wait
	coming bool                      // a worker is on its way
}

// add has c serve x.
func (w *workers) add(c *rdmaServed, x *responder.Call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls.Push(&x.Place, x)
	w.send(c) // the goroutine that reads goes on reading
}

// send starts a worker if one is needed and none is coming. The caller holds w.mu.
func (w *workers) send(c *rdmaServed) {
	if w.calls.Len() > 0 && !w.coming {
		w.coming = true
		go w.run(c)
	}
}

// run is a worker.
func (w *workers) run(c *rdmaServed) {
	for x := w.take(c, true); x != nil; x = w.take(c, false) {
		c.timed(x)
	}
}

// take returns the next call, nil if there is none.
func (w *workers) take(c *rdmaServed, arrived bool) *responder.Call {
	w.mu.Lock()
	defer w.mu.Unlock()
	if arrived {
		w.coming = false
	}
	x := w.calls.Pop()
	w.send(c) // this one may block for long: the next call has a worker of its own
	return x
}
