package transport_test

import (
	"net"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
)

// TestClients: connections of both kinds are listed while they last.
func TestClients(t *testing.T) {
	s, addr := served(t, overShared, newEcho(), nil)
	c := must(net.Dial("tcp", addr))(t)
	rdma, tcp := connect(t, "rdma", addr, nil), streamOver(t, c)
	for _, c := range []rpc.Caller{rdma, tcp} { // so that the server knows what they are
		mustDo(t, c, &nullCall)
	}
	list := s.Clients()
	slices.SortFunc(list, func(a, b transport.ServedClient) int { return len(b.Network) - len(a.Network) })
	if len(list) != 2 || list[0].Network != "rdma" || list[1].Network != "tcp" || list[0].OctetsIn == 0 ||
		list[1].Addr.String() != c.LocalAddr().String() || list[0].Since.IsZero() {
		t.Errorf("%+v", list)
	}
	none, all := func(net.Addr) bool { return false }, func(a net.Addr) bool { return a.Network() == "tcp" }
	if n, m := s.Disconnect(none), s.Disconnect(all); n != 0 || m != 2 {
		t.Errorf("%d and %d connections ended, want 0 and 2", n, m)
	}
	for _, c := range []rpc.Caller{rdma, tcp} {
		var reply rpc.Reply
		if err := c.Do(t.Context(), &nullCall, &reply); err == nil {
			t.Error("a call over a connection that the server has ended")
		}
	}
	_ = rdma.Close()
	_ = tcp.Close()
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if list := s.Clients(); len(list) != 0 {
		t.Errorf("%+v", list)
	}
}
