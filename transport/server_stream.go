package transport

import (
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/transport/internal/execute"
	"github.com/stag-rdma/stag/transport/internal/stream"
	"github.com/stag-rdma/stag/transport/rpc"
)

// ServeStreamConn takes conn and serves record-marked RPC on it until the stream ends and all
// calls are answered. It returns nil if the peer ends the stream in an orderly way.
func (s *Server) ServeStreamConn(conn net.Conn) error { return s.serveStreamOf(conn, s.Handler, 0) }

// serveStreamOf is ServeStreamConn with another handler.
func (s *Server) serveStreamOf(conn net.Conn, h rpc.Handler, turn execute.Turn) error {
	if err := given("connection", conn); err != nil {
		return err
	}
	if err := s.init(); err != nil {
		_ = conn.Close() // the error above says more
		return err
	}
	if _, is := conn.(*tls.Conn); is {
		return s.serveTLS(conn, h, turn)
	}
	return s.serveRecords(conn, nil, h, nil, false, turn)
}

// serveRecords serves records, which state protects, until the stream ends or a client with whom both is agreed enables RDMA.
func (s *Server) serveRecords(conn net.Conn, state *tls.ConnectionState, h rpc.Handler, first []byte, both bool, turn execute.Turn) error {
	c := stream.NewConn(s.stream, h, conn, state, first, both)
	switch err := c.Serve(turn); {
	case errors.Is(err, stream.ErrToTLS):
		return s.serveTLS(conn, h, turn)
	case errors.Is(err, stream.ErrToRDMA):
		if err := conn.SetDeadline(time.Time{}); err != nil {
			return rpc.AsOpError(rpc.OpServe, peeraddr.Of(conn), err)
		}
		return s.serveConn(conn, c.Ahead(), turn)
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
