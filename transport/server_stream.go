package transport

import (
	"net"

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
	return stream.NewConn(s.stream, h, conn, nil, false).Serve(turn)
}

// stream returns the settings of record-marked connections.
func (c *Config) stream() stream.Config {
	return stream.Config{
		Credits: c.Credits, BackwardCredits: c.Backward.Credits, MaxPayload: c.MaxPayload, Binding: c.Binding, AnyCred: c.AnyCred,
		HandlerLimit: c.Reading.HandlerLimit, CallTimeout: c.Timeouts.Call,
	}
}
