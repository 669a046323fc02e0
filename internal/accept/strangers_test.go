package accept

import (
	"net"
	"testing"
)

func TestStrangers(t *testing.T) {
	var s Strangers
	a, b := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 1}
	other := &net.TCPAddr{IP: a.IP, Port: 2}
	if !s.Enter(a, 2) || !s.Enter(other, 2) || s.Enter(a, 2) || s.Enter(other, 2) {
		t.Error("a host has another number of places than 2")
	}
	if !s.Enter(b, 2) || !s.Enter(nil, 2) {
		t.Error("one host takes the places of others")
	}
	for i := range 3 {
		c := &net.TCPAddr{IP: net.ParseIP("2001:db8::1"), Port: 1}
		c.IP[15] += byte(i)
		if s.Enter(c, 2) != (i < 2) {
			t.Error("an IPv6 host has another number of places than 2")
		}
	}
	for range 2 {
		s.Leave(&net.TCPAddr{IP: net.ParseIP("2001:db8::9"), Port: 1}) // the same host
	}
	s.Leave(other)
	if !s.Enter(a, 2) || s.Enter(a, 2) {
		t.Error("a place is not given back")
	}
	for _, x := range []net.Addr{a, a, b, nil} {
		s.Leave(x)
	}
	if len(s.n) != 0 {
		t.Error("hosts that left are remembered:", s.n)
	}
}
