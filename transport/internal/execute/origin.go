package execute

import (
	"context"
	"net"
	"slices"
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
	turns atomic.Uint64 // taken
	mu    sync.Mutex
	hosts map[string]*peerHost
}

// Turn is the place of a connection in the order in which connections were accepted; 0: none yet.
type Turn uint64

// peerHost is a client address that has connections.
type peerHost struct {
	addr  string
	conns []*Origin     // guarded by origins.mu
	last  atomic.Uint64 // the turn of its newest connection
}

// Origin is a connection of a client; nil: of a server that this side calls.
type Origin struct {
	host  *peerHost
	nth   uint64
	ended atomic.Bool // nobody can get a reply any more
	hup   hangup
	prior []<-chan struct{} // each closed when an older connection, which its client has closed, runs no call

	running atomic.Int32 // calls that have begun and must not run late
	mu      sync.Mutex
	rests   chan struct{} // closed when none runs; nil: nobody waits
}

// enter notes that a connection has come, whose turn may have been taken when it was accepted.
func (a *origins) enter(conn net.Conn, turn Turn) *Origin {
	if turn == 0 {
		turn = Turn(a.turns.Add(1))
	}
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
	x := &Origin{host: h, nth: uint64(turn)}
	x.hup.init(conn)
	// First the number, then the look at the calls that run: a call that this look does not find sees the number.
	h.last.Store(max(h.last.Load(), x.nth))
	for _, o := range h.conns {
		if o.nth < x.nth {
			if rests := o.busy(); rests != nil {
				x.prior = append(x.prior, rests)
			}
		}
	}
	h.conns = append(h.conns, x)
	return x
}

// leave forgets a connection.
func (a *origins) leave(x *Origin) {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := x.host
	i := slices.Index(h.conns, x)
	last := len(h.conns) - 1
	h.conns[i], h.conns[last] = h.conns[last], nil
	if h.conns = h.conns[:last]; last == 0 {
		delete(a.hosts, h.addr)
	}
}

// busy returns a channel that is closed when the calls of a connection have ended, which its client has closed;
// nil if none runs.
func (x *Origin) busy() <-chan struct{} {
	if x.running.Load() == 0 || !x.hup.seen() {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.rests == nil {
		x.rests = make(chan struct{})
	}
	rests := x.rests
	x.rest()
	return rests
}

// begin is called before a call that must not run late, and reports whether it may run: then the caller calls done
// after it. What the client has sent on an older connection, and closed, and what runs, ends first: else a WRITE
// that has begun could overwrite this one.
func (x *Origin) begin(ctx context.Context) bool {
	if x == nil {
		return true
	}
	x.running.Add(1)
	if x.Late() {
		x.done()
		return false
	}
	for _, rests := range x.prior {
		select {
		case <-rests:
		case <-ctx.Done():
			x.done()
			return false
		}
	}
	return true
}

// done ends begin.
func (x *Origin) done() {
	if x != nil && x.running.Add(-1) == 0 {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.rest()
	}
}

// rest wakes those that wait until no call runs, if that is so. The caller holds x.mu.
func (x *Origin) rest() {
	if x.rests != nil && x.running.Load() == 0 {
		close(x.rests)
		x.rests = nil
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
