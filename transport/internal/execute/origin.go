package execute

import (
	"context"
	"hash/maphash"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/stag-rdma/stag/internal/callid"
	"github.com/stag-rdma/stag/internal/list"
	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/internal/shared"
	"github.com/stag-rdma/stag/transport/rpc"
)

// origins numbers the connections of each client address in the order in which they came, so that a
// call is not executed late: the first transmission of a WRITE may wait in a connection that its client
// has given up, while the client has written something else to the same place on a newer one.
//
// Choice: a connection that its client has closed is served as long as the client has no newer one: it
// may still read the replies. One that is open is served in any case, because clients use several.
type origins struct {
	turns atomic.Uint64 // taken
	mu    shared.Mutex
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
	prior []prior // what ran on older connections, which its client has closed, when this one came

	mu    sync.Mutex
	calls list.List[changing] // that have begun
	idle  list.List[changing] // to be used again
}

// changing is a call that has begun, and that must not run late.
type changing struct {
	place list.Node[changing]
	what  change
	ended chan struct{} // made by whoever waits for the end, and closed then
}

// prior is a call that must end before another that changes the same.
type prior struct {
	what  change
	ended <-chan struct{}
}

// change says what a call changes, and for whom.
type change struct {
	who uint64 // a hash of credential and program
	on  [2]uint64
}

var callerSeed = maphash.MakeSeed()

// changeOf returns the change that a call makes.
func changeOf(t *rpc.Traits, req *rpc.Request) change {
	var m maphash.Hash
	m.SetSeed(callerSeed)
	maphash.WriteComparable(&m, [2]uint32{req.Prog, uint32(req.Cred.Flavor)})
	_, _ = m.Write(callid.CredOf(&req.CallHeader)) // never fails
	return change{who: m.Sum64(), on: t.Changes}
}

// meets reports whether two changes may be of the same object, for the same caller.
func (c change) meets(d change) bool {
	if c.who != d.who {
		return false
	}
	for _, a := range c.on {
		if a != 0 && (a == d.on[0] || a == d.on[1]) {
			return true
		}
	}
	return c.on == [2]uint64{} || d.on == [2]uint64{} // one that may change anything
}

// enter notes that a connection has come, whose turn may have been taken when it was accepted.
func (a *origins) enter(conn net.Conn, turn Turn) *Origin {
	if turn == 0 {
		turn = Turn(a.turns.Add(1))
	}
	addr := peeraddr.Host(conn.RemoteAddr())
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
			x.prior = o.running(x.prior)
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
	h.conns[i], h.conns[last] = h.conns[last], nil // their order does not matter: nth tells it
	if h.conns = h.conns[:last]; last == 0 {
		delete(a.hosts, h.addr)
	}
}

// running appends the calls of a connection to list, if its client has closed it.
func (x *Origin) running(list []prior) []prior {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.calls.Len() == 0 || !x.hup.seen() { // the system call last
		return list
	}
	for c := range x.calls.All() {
		if c.ended == nil {
			c.ended = make(chan struct{})
		}
		list = append(list, prior{c.what, c.ended})
	}
	return list
}

// begin is called before a call that must not run late, and returns it if it may run: then the caller calls done
// after it. A call that its client has sent on an older connection, and closed, and that still runs, ends first: else
// it could overwrite what this one writes. Nothing else is waited for: a disk may hang for ever.
func (x *Origin) begin(ctx context.Context, what change) (c *changing, ok bool) {
	if x == nil {
		return nil, true
	}
	c = x.enter(what) // first: a newer connection that does not find it in the list will be seen by Late
	if x.Late() {
		x.done(c)
		return nil, false
	}
	for _, p := range x.prior {
		if !p.what.meets(what) {
			continue
		}
		select {
		case <-p.ended:
		case <-ctx.Done():
			x.done(c)
			return nil, false
		}
	}
	return c, true
}

// enter notes that a call has begun.
func (x *Origin) enter(what change) *changing {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.idle.Pop()
	if c == nil {
		c = new(changing)
	}
	c.what = what
	x.calls.Push(&c.place, c)
	return c
}

// done ends begin.
func (x *Origin) done(c *changing) {
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if c.ended != nil {
		close(c.ended)
		c.ended = nil
	}
	x.idle.Push(&c.place, c)
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
