package transport_test

import (
	"context"
	"net"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
)

// TestClients: connections of both kinds are listed while they last.
func TestClients(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &transport.Server{Handler: rpc.HandlerFunc(func(context.Context, *rpc.Request, *rpc.Response) {})}
	served := make(chan error)
	go func() { served <- s.ServeShared(l) }()
	rdma, err := transport.Dial(t.Context(), "tcp", l.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := transport.NewStreamClient(context.Background(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []rpc.Caller{rdma, tcp} { // so that the server knows what they are
		var reply rpc.Reply
		if err := c.Do(t.Context(), &rpc.Call{Prog: 1, Vers: 1}, &reply); err != nil {
			t.Fatal(err)
		}
		reply.Release()
	}
	list := s.Clients()
	slices.SortFunc(list, func(a, b transport.ServedClient) int { return len(b.Network) - len(a.Network) })
	if len(list) != 2 || list[0].Network != "rdma" || list[1].Network != "tcp" || list[0].OctetsIn == 0 ||
		list[1].Addr.String() != c.LocalAddr().String() || list[0].Since.IsZero() {
		t.Errorf("%+v", list)
	}
	_ = rdma.Close()
	_ = tcp.Close()
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	<-served
	if list := s.Clients(); len(list) != 0 {
		t.Errorf("%+v", list)
	}
}
