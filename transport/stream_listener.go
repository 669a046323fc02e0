package transport

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/internal/setting"
	"github.com/stag-rdma/stag/transport/internal/admit"
	"github.com/stag-rdma/stag/transport/internal/stream"
	"github.com/stag-rdma/stag/transport/rpc"
)

// NewStreamListener takes l and returns a listener of its connections, for a [Relay] whose clients are on record-marked
// TCP. Limits are those of [NewListener], but half as many connections beyond 2048 if Limits.Conns is not set; connections
// beyond them are closed. What a Relay to a server on RDMA holds for a call, and for its reply until the client has read
// that, counts as memory of calls. The result has Stats, as a [Listener] has.
func NewStreamListener(l net.Listener, cfg *Config) (net.Listener, error) {
	if err := given("listener", l); err != nil {
		return nil, err
	}
	c, err := cfg.fill()
	if err == nil {
		err = c.GSS.listens()
	}
	if err != nil {
		return nil, err
	}
	if c.TLS.AllowClear {
		return nil, ofTransport(setting.Error("TLS.AllowClear of a listener of records: it wants TLS of all of them, or of none"))
	}
	if cfg == nil || cfg.Limits.Conns == 0 {
		// With its Relay and its connection to the server, an idle one takes 34 KiB, not 16 as one on RDMA.
		c.Limits.Conns -= (c.Limits.Conns - admit.FreeConns) / 2
	}
	s := &streamListener{makeListener(l, c)}
	start := func(conn net.Conn) { _ = s.admitStream(conn) } // it is closed
	if c.TLS.Config != nil {
		// A server without programs: it answers the probe, refuses all else in clear, and limits who does not go on.
		front := &Server{Handler: rpc.HandlerFunc(func(context.Context, *rpc.Request, *rpc.Response) {}), Config: c, within: s.admitStream}
		context.AfterFunc(s.ctx, func() { _ = front.Close() })
		start = func(conn net.Conn) { go func() { _ = front.ServeStreamConn(conn) }() } // it has logged its error
	}
	go s.run(start)
	return s, nil
}

// streamListener is not a *Listener, whose connections are RDMA's.
type streamListener struct{ *Listener }

// streamConn is a connection that a Listener of NewStreamListener has admitted.
type streamConn struct {
	net.Conn
	l       *Listener
	peer    *admit.Peer
	begun   time.Time
	in, out atomic.Uint64 // octets that have moved
	cut     atomic.Pointer[error]
	once    sync.Once
}

// admitStream admits a connection, and queues it for Accept.
func (l *Listener) admitStream(conn net.Conn) error {
	c := &streamConn{Conn: conn, l: l, begun: time.Now()}
	p, err := l.gate.Enter(conn.RemoteAddr(), (*streamMover)(c))
	if err != nil {
		_ = conn.Close() // nothing was sent on it
		return err
	}
	c.peer = p
	if err := l.add(c); err != nil {
		p.Leave()
		_ = conn.Close() // nothing was sent on it
		return err
	}
	l.ctr.Accepted.Add(1)
	select {
	case l.ready <- c:
	case <-l.ctx.Done():
		return c.Close() // nobody has it
	}
	return nil
}

// TLS returns what protects the connection, nil if nothing does.
func (c *streamConn) TLS() *tls.ConnectionState { return stream.StateOf(c.Conn) }

// Refuse ends the connection because of err.
func (c *streamConn) Refuse(err error) {
	if c.cut.CompareAndSwap(nil, &err) {
		_ = stream.Below(c.Conn).Close()
	}
}

// Read implements net.Conn.
func (c *streamConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.in.Add(uint64(n))
	return n, c.why(err)
}

// Write implements net.Conn.
func (c *streamConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.out.Add(uint64(n))
	return n, c.why(err)
}

// why returns err, or why the connection was cut.
func (c *streamConn) why(err error) error {
	if w := c.cut.Load(); err != nil && w != nil {
		return *w
	}
	return err
}

// Close implements net.Conn.
func (c *streamConn) Close() error {
	c.once.Do(func() {
		c.l.drop(c)
		c.peer.Leave()
	})
	return c.Conn.Close()
}

// streamMover tells what a streamConn moves.
type streamMover streamConn

var _ admit.Mover = (*streamMover)(nil)

// Moved implements admit.Mover.
func (m *streamMover) Moved(f admit.Flow) uint64 {
	if f == admit.Leaving {
		return m.out.Load()
	}
	return m.in.Load()
}

// Cut implements admit.Mover.
func (m *streamMover) Cut(f admit.Flow) {
	err := admit.ErrUnread
	if f == admit.Arriving {
		err = &rpc.SlowPeerError{What: "has stopped inside a record"}
	}
	if m.cut.CompareAndSwap(nil, &err) {
		_ = m.l.gate.Ended(rpc.AsOpError(rpc.OpServe, peeraddr.Of(m.Conn), err)) // it counts
		go m.Conn.Close()                                                        //nolint:errcheck // it is over either way
	}
}

// callHold is what a call that a Relay passes on to a CallConn holds of the client's memory. A nil *callHold holds nothing.
type callHold struct {
	c *streamConn
	t admit.Ticket
}

// granted wakes who waits for a ticket.
type granted chan struct{}

// Granted implements admit.Waiter.
func (g granted) Granted() { close(g) }

// take waits until it holds n octets more, or until over is closed, or the deadline has passed.
func (h *callHold) take(n int, over, passed <-chan struct{}) bool {
	if h.t.Try(n, false) {
		return true
	}
	g := make(granted)
	if h.t.Acquire(n, false, g) {
		return true
	}
	select {
	case <-g:
		return true
	case <-over:
	case <-passed:
	}
	if !h.t.Withdraw() {
		<-g
	}
	return false
}

// awaits notes what the call waits for its client to do.
func (h *callHold) awaits(f admit.Flow) {
	if h != nil {
		h.c.l.gate.Awaits(&h.t, f, 0)
	}
}

// release gives all back.
func (h *callHold) release() {
	if h != nil {
		h.t.Release()
	}
}
