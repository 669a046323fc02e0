package transport

import (
	"context"
	"net"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/transport/internal/admit"
	"github.com/stag-rdma/stag/transport/internal/requester"
	"github.com/stag-rdma/stag/transport/internal/responder"
	"github.com/stag-rdma/stag/transport/rpc"
)

// What the tests, which stand outside, look at or do inside.

var ChangesNFS3 = changesNFS3

const NoCount, NoLimit = noCount, noLimit

func (c *Config) Fill() (*Config, error)               { return c.fill() }
func (c *Config) ClientLimits(a net.Addr) ClientLimits { return c.clientLimits(a) }
func (c *Config) Engine(recvs int) *rdmap.Config       { return c.engine(recvs) }
func (c *Client) Requester() *requester.Requester      { return c.req }
func (s *Server) Init() error                          { return s.init() }
func (s *Server) Gate() *admit.Gate                    { return s.gate }
func (s *Server) IsClosing() bool                      { return s.isClosing() }
func (s *Server) OctetsExposed() int64                 { return s.ctr.ExposedOctets.Load() }

// Responders returns those of the RDMA connections alive.
func (s *Server) Responders() (list []*responder.Responder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if r, ok := c.(*rdmaServed); ok {
			list = append(list, r.rc)
		}
	}
	return list
}

// ResponderOf returns that of a connection of a Listener.
func ResponderOf(c net.Conn) *responder.Responder { return c.(*recordConn).rc }

// Waiting returns how many calls a connection of a Listener has not answered.
func Waiting(c net.Conn) int {
	n, _ := c.(*recordConn).load(0)
	return n
}

// Dispatch gives a call to the connections of which c is one, and reports whether one of them has taken it.
func Dispatch(c net.Conn, x *responder.Call) bool {
	ls := c.(*recordConn).fanout
	before := ls.ctr.Dropped.Load()
	ls.Dispatch(x, false)
	return ls.ctr.Dropped.Load() == before
}

// Execute runs a call of a connection that has not ended.
func (s *Server) Execute(req *rpc.Request, resp *rpc.Response) bool {
	t := rpc.Describe(s.Handler, req)
	return s.exec.Execute(context.Background(), s.Handler, &t, req, resp, nil)
}
