package server

import "net"

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
