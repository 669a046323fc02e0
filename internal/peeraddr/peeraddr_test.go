package peeraddr_test

import (
	"net"
	"testing"

	"github.com/stag-rdma/stag/internal/peeraddr"
)

type other string

func (other) Network() string  { return "tcp" }
func (a other) String() string { return string(a) }

func TestNames(t *testing.T) {
	tcp := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 9} }
	for _, x := range []struct {
		a           net.Addr
		host, share string
		many        bool
	}{
		{nil, "", "", true},
		{&net.TCPAddr{}, ":0", ":0", true},
		{tcp("192.0.2.1"), "192.0.2.1", "192.0.2.1", false},
		{tcp("::ffff:192.0.2.1"), "192.0.2.1", "192.0.2.1", false},
		{other("[::ffff:192.0.2.1]:9"), "192.0.2.1", "192.0.2.1", false},
		{&net.UDPAddr{IP: net.ParseIP("2001:db8::1"), Port: 9}, "2001:db8::1", "2001:db8::/64", false},
		{tcp("2001:db8::1"), "2001:db8::1", "2001:db8::/64", false},
		{tcp("2001:db8::ffff:1:2:3"), "2001:db8::ffff:1:2:3", "2001:db8::/64", false},
		{tcp("2001:db8:0:1::1"), "2001:db8:0:1::1", "2001:db8:0:1::/64", false},
		{&net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0", Port: 9}, "fe80::1%eth0", "fe80::1%eth0", false},
		{&net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth1", Port: 9}, "fe80::1%eth1", "fe80::1%eth1", false},
		{tcp("::1"), "::1", "::1", true},
		{&net.UnixAddr{Name: "/run/x", Net: "unix"}, "/run/x", "/run/x", true},
	} {
		if h, s := peeraddr.Host(x.a), peeraddr.Share(x.a); h != x.host || s != x.share || peeraddr.ShareOf(h) != s || peeraddr.Many(h) != x.many || peeraddr.Many(s) != x.many {
			t.Errorf("%v: %q and %q, want %q and %q", x.a, h, s, x.host, x.share)
		}
	}
}
