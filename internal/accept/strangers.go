package accept

import (
	"net"
	"net/netip"
	"sync"
)

// Strangers counts the connections whose peers have not shown yet who they are, by host, so
// that one of these cannot take all the places there are. The zero value is ready; it is safe
// for concurrent use.
type Strangers struct {
	mu sync.Mutex
	n  map[string]int
}

// Enter counts a connection from a in, unless most of its host are there. Each that was
// counted in has to Leave, when it is known or over.
func (s *Strangers) Enter(a net.Addr, most int) bool {
	host := Host(a)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n[host] >= most {
		return false
	}
	if s.n == nil {
		s.n = make(map[string]int)
	}
	s.n[host]++
	return true
}

// Leave counts a connection from a out.
func (s *Strangers) Leave(a net.Addr) {
	host := Host(a)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n[host]--; s.n[host] == 0 {
		delete(s.n, host)
	}
}

// Host returns an address without its port, "" of nil. An IPv4 address that a socket for both
// families has written as an IPv6 one is the IPv4 address.
func Host(a net.Addr) string {
	if a == nil {
		return ""
	}
	if ap, err := netip.ParseAddrPort(a.String()); err == nil {
		return ap.Addr().Unmap().String()
	}
	return a.String()
}
