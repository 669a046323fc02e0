package accept

import (
	"net"
	"sync"

	"github.com/stag-rdma/stag/internal/peeraddr"
)

// Strangers counts, by host, the connections whose peers have not yet shown who they are, so
// that one host cannot take all places. The zero value is ready for use. Strangers is safe for
// concurrent use.
type Strangers struct {
	mu sync.Mutex
	n  map[string]int
}

// Enter counts a connection from address a, and reports whether it did: it does not if there
// are already most from the same host. After a true, call Leave once, when the peer has shown
// who it is or the connection is over.
func (s *Strangers) Enter(a net.Addr, most int) bool {
	host := peeraddr.Share(a)
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

// Leave ends the count of a connection that Enter has counted.
func (s *Strangers) Leave(a net.Addr) {
	host := peeraddr.Share(a)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n[host]--; s.n[host] == 0 {
		delete(s.n, host)
	}
}
