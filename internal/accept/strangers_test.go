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

type addr string

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return string(a) }

func TestHost(t *testing.T) {
	for _, tt := range []struct {
		a    net.Addr
		want string
	}{
		{nil, ""},
		{&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 9}, "192.0.2.1"},
		{&net.TCPAddr{IP: net.IPv6loopback, Port: 9}, "::1"},
		{addr("[::ffff:192.0.2.1]:9"), "192.0.2.1"},
		{&net.UnixAddr{Name: "/run/x"}, "/run/x"},
	} {
		if got := Host(tt.a); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.a, got, tt.want)
		}
	}
}
