package transport

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"

	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/transport/internal/execute"
	"github.com/stag-rdma/stag/transport/internal/requester"
	"github.com/stag-rdma/stag/transport/internal/stream"
	"github.com/stag-rdma/stag/transport/rpc"
)

// ServeStreamConn takes conn and serves record-marked RPC on it until the stream ends and all
// calls are answered. It returns nil if the peer ends the stream in an orderly way.
func (s *Server) ServeStreamConn(conn net.Conn) error { return s.serveStreamOf(conn, &s.all, 0) }

// serveStreamOf is ServeStreamConn with another handler.
func (s *Server) serveStreamOf(conn net.Conn, by *Served, turn execute.Turn) error {
	if err := given("connection", conn); err != nil {
		return err
	}
	if err := s.init(); err != nil {
		_ = conn.Close() // the error above says more
		return err
	}
	if _, is := conn.(*tls.Conn); is {
		return s.serveTLS(conn, by, turn)
	}
	return s.serveRecords(conn, nil, by, nil, false, turn)
}

// serveRecords serves records, which state protects, until the stream ends or a client with whom both is agreed enables RDMA.
func (s *Server) serveRecords(conn net.Conn, state *tls.ConnectionState, by *Served, first []byte, both bool, turn execute.Turn) error {
	c := stream.NewConn(s.stream, by.Handler, conn, state, first, both)
	if stop := by.drains(c); stop != nil {
		defer stop()
	}
	switch err := c.Serve(turn); {
	case errors.Is(err, stream.ErrToTLS):
		return s.serveTLS(conn, by, turn)
	case errors.Is(err, stream.ErrToRDMA):
		if err := conn.SetDeadline(time.Time{}); err != nil {
			return rpc.AsOpError(rpc.OpServe, peeraddr.Of(conn), err)
		}
		return s.serveConn(conn, by, c.Ahead(), turn)
	default:
		return err
	}
}

// stream returns the settings of record-marked connections.
func (c *Config) stream() stream.Config {
	return stream.Config{
		Credits: c.Credits, BackwardCredits: c.Backward.Credits, MaxPayload: c.MaxPayload, Binding: c.Binding, AnyCred: c.AnyCred,
		TLS: c.TLS.Config != nil, NoClear: c.TLS.demanded(),
		HandlerLimit: c.Reading.HandlerLimit, CallTimeout: c.Timeouts.Call,
	}
}

// peekSize is how many octets distinguish the protocols: as a record mark, the start of the MPA key
// would announce a fragment of more than a gigabyte.
const peekSize = 4

// ServeShared takes l, accepts connections from it, and serves RPC-over-RDMA or record-marked RPC
// on each, depending on its first octets: both can share a port. A client that sends nothing for
// Startup.Timeout is disconnected.
func (s *Server) ServeShared(l net.Listener) error { return s.accept(l, s.Each, s.serveSharedConn) }

// ServeSharedConn is [Server.ServeConn] or [Server.ServeStreamConn] on conn, which it takes. A
// client that began with record-marked RPC may enable RDMA between two messages, once it has the
// replies to all its calls (RFC 5666 Section 3; [StreamClient.EnableRDMA]).
func (s *Server) ServeSharedConn(conn net.Conn) error { return s.serveSharedConn(conn, &s.all, 0) }

func (s *Server) serveSharedConn(conn net.Conn, by *Served, turn execute.Turn) error {
	if err := given("connection", conn); err != nil {
		return err
	}
	if err := s.init(); err != nil {
		_ = conn.Close() // the error above says more
		return err
	}
	if _, card := conn.(rdmap.Device); card {
		return s.serveConn(conn, by, nil, turn)
	}
	first := make([]byte, peekSize)
	err := s.admitted(conn, func() error { _, err := io.ReadFull(conn, first); return err })
	if err != nil {
		if _, refused := errors.AsType[*rpc.LimitError](err); refused {
			s.gate.TurnAway(s.ctx, conn, nil, err)
		}
		_ = conn.Close() // nothing was sent on it
		err = s.gate.Ended(rpc.AsOpError(rpc.OpAccept, peeraddr.Of(conn), requester.IgnoreEnd(err)))
		s.gate.Stranger(peeraddr.Of(conn), err)
		return err
	}
	if string(first) == mpa.RequestKey[:peekSize] || first[0] == stream.RecordHandshake { // no mark of so long a fragment
		return s.serveConn(conn, by, first, turn)
	}
	return s.serveRecords(conn, stream.StateOf(conn), by, first, true, turn)
}

// admitted begins a connection, which counts as one meanwhile, within Startup.Timeout.
func (s *Server) admitted(conn net.Conn, begin func() error) error {
	p, err := s.gate.Enter(conn.RemoteAddr(), nil)
	if err != nil {
		return err
	}
	defer p.Leave()
	c := &peekedConn{conn}
	if err := s.addConn(c); err != nil {
		return err
	}
	defer s.dropConn(c)
	if err := conn.SetDeadline(time.Now().Add(s.cfg.Startup.Timeout)); err != nil {
		return err
	}
	if err := begin(); err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}

// peekedConn is a connection whose protocol is not known yet.
type peekedConn struct{ conn net.Conn }

func (c *peekedConn) Drain() { c.Abort() }
func (c *peekedConn) Abort() { _ = c.conn.Close() }
