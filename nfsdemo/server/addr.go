package server

import (
	"net"
	"net/netip"
)

// addrOf returns the IP address of a peer; there is none on unix sockets and in tests.
func addrOf(a net.Addr) (netip.Addr, bool) {
	if t, ok := a.(*net.TCPAddr); ok {
		ip := t.AddrPort().Addr()
		return ip.Unmap().WithZone(""), ip.IsValid()
	}
	if a == nil {
		return netip.Addr{}, false
	}
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{}, false
	}
	return ap.Addr().Unmap().WithZone(""), true
}

// portOf returns the port of a peer over TCP or UDP.
func portOf(a net.Addr) (int, bool) {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.Port, true
	case *net.UDPAddr:
		return a.Port, true
	}
	return 0, false
}

// hostOf names a peer for the list of DUMP.
func hostOf(a net.Addr) string {
	if ip, ok := addrOf(a); ok {
		return ip.String()
	}
	if a == nil {
		return "unknown"
	}
	return a.String()
}
