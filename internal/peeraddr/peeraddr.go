// Package peeraddr says which client an address is.
//
// Where it matters who somebody is (locks, duplicates of calls, exports), that is the whole address: see [Host]. Where
// clients share something (limits, turns), it is the IPv4 address, or the IPv6 network of 64 bits, of which one host has
// all addresses: see [Share].
package peeraddr

import (
	"net"
	"net/netip"
)

// IP returns the IP address of a peer, with its zone; the zero Addr if it has none. An IPv4-mapped IPv6 address, as
// sockets for both families report it, becomes the IPv4 address.
func IP(a net.Addr) netip.Addr {
	if t, ok := a.(*net.TCPAddr); ok { // cheaper than its text
		return t.AddrPort().Addr().Unmap()
	}
	if a == nil {
		return netip.Addr{}
	}
	ap, _ := netip.ParseAddrPort(a.String()) // the zero AddrPort
	return ap.Addr().Unmap()
}

// Host names whoever has an address: the address without its port, which is another one after a reconnection. It is ""
// for nil.
func Host(a net.Addr) string {
	if ip := IP(a); ip.IsValid() {
		return ip.String()
	}
	if a == nil {
		return ""
	}
	return a.String()
}

// Share names those who have one share together.
func Share(a net.Addr) string { return ShareOf(Host(a)) }

// ShareOf is Share for a result of Host. Addresses of one link, which a router does not pass on, and those of loopback are
// not a network of one host.
func ShareOf(host string) string {
	ip, err := netip.ParseAddr(host)
	if err != nil || ip.Is4() || ip.IsLinkLocalUnicast() || ip.IsLoopback() {
		return host
	}
	p, _ := ip.WithZone("").Prefix(64) // fails for no IPv6 address
	return p.String()
}

// Many reports whether a result of Host or Share may stand for any number of clients: loopback, and what has no IP address.
func Many(name string) bool {
	ip, err := netip.ParseAddr(name)
	if err != nil {
		_, err = netip.ParsePrefix(name)
		return err != nil
	}
	return ip.IsLoopback()
}

// Reserved reports whether a port is one that only root of its machine can have.
func Reserved(a net.Addr) bool {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.Port < 1024
	case *net.UDPAddr:
		return a.Port < 1024
	}
	return false
}

// Of returns the address of the peer of a connection for errors and logs, "" if it has none.
func Of(c interface{ RemoteAddr() net.Addr }) string {
	if a := c.RemoteAddr(); a != nil {
		return a.String()
	}
	return ""
}
