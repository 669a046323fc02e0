// Package accepttest tests servers that use package accept.
package accepttest

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/stag-rdma/stag/internal/rdmaptest"
)

// Strangers checks that a host which connects and does not show who it is cannot take the places of others. serve
// serves one connection, and gives strangers of one host two places; it returns an error that wraps refused when
// these are taken, and another error when a stranger has been silent for too long. Call Strangers in a bubble of
// synctest.
func Strangers(t *testing.T, serve func(net.Conn) error, refused error) {
	t.Helper()
	var ends []net.Conn
	served := make(chan error, 16)
	knock := func(addr string) {
		a, b := rdmaptest.Pipe()
		ends = append(ends, a)
		go func() { served <- serve(fromConn{b, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr))}) }()
		synctest.Wait()
	}
	for _, addr := range []string{"192.0.2.1:1", "192.0.2.1:2", "192.0.2.2:1", "192.0.2.1:3"} {
		knock(addr)
	}
	if err := <-served; !errors.Is(err, refused) || len(served) != 0 {
		t.Errorf("the third of a host: %v, and %d more are over", err, len(served))
	}
	for range 3 {
		if err := <-served; err == nil || errors.Is(err, refused) { // the start-up has a deadline
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
}

// fromConn is a pipe end whose peer has an address of its choice.
type fromConn struct {
	net.Conn
	addr net.Addr
}

// RemoteAddr implements net.Conn.
func (c fromConn) RemoteAddr() net.Addr { return c.addr }
