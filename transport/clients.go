package transport

import (
	"net"
	"time"

	"github.com/stag-rdma/stag/transport/internal/stream"
)

// ServedClient is a connection that a [Server] serves.
type ServedClient struct {
	Addr    net.Addr
	Network string    // and what protects it: "rdma", "rdma+tls", "tcp", "tls", "mtls: CN=client"
	Since   time.Time // when it was accepted
	// OctetsIn and OctetsOut are what came and left on the byte stream, after the start-up; 0 over TCP,
	// where nobody counts them.
	OctetsIn, OctetsOut uint64
}

// Clients returns the connections that are served now, in no order. Those whose start-up has not ended
// are among them.
func (s *Server) Clients() []ServedClient {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]ServedClient, 0, len(s.conns))
	for c, since := range s.conns {
		switch c := c.(type) {
		case *rdmaServed:
			st := c.rc.Conn.Stats()
			list = append(list, ServedClient{Addr: c.addr, Network: c.network(), Since: since, OctetsIn: st.OctetsIn, OctetsOut: st.OctetsOut})
		case *stream.Conn:
			list = append(list, ServedClient{Addr: c.RemoteAddr(), Network: stream.NameOf("tcp", c.TLS()), Since: since})
		}
	}
	return list
}

// Disconnect ends the connections of clients whose addresses are in which, at once, and returns how many those were. Nothing
// keeps such a client from connecting again.
func (s *Server) Disconnect(which func(net.Addr) bool) (n int) {
	var list []servedConn
	s.mu.Lock()
	for c := range s.conns {
		switch c := c.(type) {
		case *rdmaServed:
			if which(c.addr) {
				list = append(list, c)
			}
		case *stream.Conn:
			if which(c.RemoteAddr()) {
				list = append(list, c)
			}
		}
	}
	s.mu.Unlock()
	for _, c := range list {
		c.Abort()
	}
	return len(list)
}
