package execute

import (
	"net"
	"sync"
	"sync/atomic"

	"github.com/stag-rdma/stag/internal/callid"
)

// origins numbers the connections of each client address in the order in which they came, so that a
// call is not executed late: the first transmission of a WRITE may wait in a connection that its client
// has given up, while the client has written something else to the same place on a newer one.
//
// Choice: a connection that its client has closed is served as long as the client has no newer one: it
// may still read the replies. One that is open is served in any case, because clients use several.
type origins struct {
	mu    sync.Mutex
	hosts map[string]*peerHost
}

// peerHost is a client address that has connections.
type peerHost struct {
	addr  string
	conns int           // guarded by origins.mu
	last  atomic.Uint64 // number of its newest connection
}

// Origin is a connection of a client; nil: of a server that this side calls.
type Origin struct {
	host  *peerHost
	nth   uint64
	ended atomic.Bool // nobody can get a reply any more
	hup   hangup
}

// enter notes that a connection has come.
func (a *origins) enter(conn net.Conn) *Origin {
	addr := callid.Host(conn.RemoteAddr())
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.hosts[addr]
	if h == nil {
		h = &peerHost{addr: addr}
		if a.hosts == nil {
			a.hosts = make(map[string]*peerHost)
		}
		a.hosts[addr] = h
	}
	h.conns++
	x := &Origin{host: h, nth: h.last.Add(1)}
	x.hup.init(conn)
	return x
}

// leave forgets a connection.
func (a *origins) leave(x *Origin) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if x.host.conns--; x.host.conns == 0 {
		delete(a.hosts, x.host.addr)
	}
}

// End notes that the connection has ended.
func (x *Origin) End() {
	if x != nil {
		x.ended.Store(true)
	}
}

// hasEnded reports whether the connection has ended, so that nobody can get a reply.
func (x *Origin) hasEnded() bool { return x != nil && x.ended.Load() }

// Late reports whether a call that was read from the connection, and that must not run twice, must not be
// executed any more.
func (x *Origin) Late() bool {
	return x.hasEnded() || x != nil && x.host.last.Load() != x.nth && x.hup.seen()
}
