package push

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
)

// fromConn is a pipe end whose peer has an address of its choice.
type fromConn struct {
	net.Conn
	addr net.Addr
}

func (c fromConn) RemoteAddr() net.Addr { return c.addr }

// A host that connects and shows no token does not take the places of others.
func TestStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := &Server{Store: newMemStore(), Limits: Limits{MaxConns: 16}} // an eighth: 2
		var ends []net.Conn
		served := make(chan error, 16)
		knock := func(addr string) {
			a, b := rdmaptest.Pipe()
			ends = append(ends, a)
			go func() { served <- ps.ServeConn(fromConn{b, from(addr)}) }()
			synctest.Wait()
		}
		for _, addr := range []string{"192.0.2.1:1", "192.0.2.1:2", "192.0.2.2:1", "192.0.2.1:3"} {
			knock(addr)
		}
		if err := <-served; !errors.Is(err, errTooManyConns) || len(served) != 0 {
			t.Errorf("the third of a host: %v, and %d more are over", err, len(served))
		}
		for range 3 {
			if err := <-served; err == nil || errors.Is(err, errTooManyConns) { // the start-up has a deadline
				t.Error(err)
			}
		}
		knock("192.0.2.1:4")
		if len(served) != 0 {
			t.Error("the places of those who are gone are not free")
		}
		for _, c := range ends {
			c.Close()
		}
		<-served
		if err := ps.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
