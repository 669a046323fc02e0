package ops

import (
	"bytes"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/internal/peeraddr"
)

// maxConns is how many connections there are at a time. net/http holds some 20 KiB for one that waits for a request,
// which no budget counts.
const maxConns = 64

// crowd are the connections. Nobody waits for a place, since a supervisor that gets no answer restarts the server: a
// connection that is one too many takes the place of another.
type crowd struct {
	mu      sync.Mutex
	guests  []*guest // in the order in which they came, or began to wait for another request
	removed atomic.Uint64
}

// guest is a connection.
type guest struct {
	kind
	conn net.Conn
}

// kind is what guests have in common.
type kind struct {
	host   string
	served bool // a request was read, and is being answered
}

// state is a [http.Server.ConnState].
func (c *crowd) state(conn net.Conn, s http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := 0
	for i < len(c.guests) && c.guests[i].conn != conn {
		i++
	}
	g := &guest{kind{host: peeraddr.Share(conn.RemoteAddr())}, conn}
	if i < len(c.guests) {
		g = c.guests[i]
	}
	remove := func() {
		if i < len(c.guests) {
			c.guests = append(c.guests[:i], c.guests[i+1:]...)
		}
	}
	switch s {
	case http.StateNew:
		if len(c.guests) >= maxConns {
			c.makeRoom()
		}
		c.guests = append(c.guests, g)
	case http.StateActive:
		g.served = true
	case http.StateIdle:
		g.served = false
		if i < len(c.guests) { // else its place is taken
			remove()
			c.guests = append(c.guests, g)
		}
	case http.StateClosed, http.StateHijacked:
		remove()
	}
}

// makeRoom closes a connection: the oldest of the host that has most, and one that waits for a request if there is any.
func (c *crowd) makeRoom() {
	n := make(map[kind]int)
	idle := false
	for _, g := range c.guests {
		n[g.kind]++
		idle = idle || !g.served
	}
	worst := -1
	for i, g := range c.guests {
		if idle && g.served {
			continue
		}
		if worst < 0 || n[g.kind] > n[c.guests[worst].kind] {
			worst = i
		}
	}
	g := c.guests[worst]
	c.guests = append(c.guests[:worst], c.guests[worst+1:]...)
	c.removed.Add(1)
	_ = g.conn.Close() // whoever serves it sees that
}

// places are for answers that take memory: one that the client does not read holds all that it has built.
type places struct {
	room chan struct{}

	mu   sync.Mutex
	held []*place // the oldest first
}

// place is of one answer.
type place struct {
	http.ResponseWriter
	p       *places
	answer  bytes.Buffer // whole before any of it is written: what takes us long on a busy machine is no fault of the client
	began   time.Time    // to be written
	hurried bool
}

// patience is how long a client may take to read an answer while others wait.
const patience = time.Second

// enter takes a place, of which the answer is written to the result. While there is none, it hurries one of those who have
// had theirs for longest.
func (p *places) enter(w http.ResponseWriter, r *http.Request) (_ *place, ok bool) {
	select {
	case p.room <- struct{}{}:
	default:
		p.hurry()
		select {
		case p.room <- struct{}{}:
		case <-r.Context().Done():
			return nil, false
		}
	}
	x := &place{ResponseWriter: w, p: p}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = append(p.held, x)
	return x, true
}

// Write implements [http.ResponseWriter].
func (x *place) Write(b []byte) (int, error) { return x.answer.Write(b) }

// write writes the answer.
func (x *place) write() {
	x.p.mu.Lock()
	x.began = time.Now()
	x.limit()
	x.p.mu.Unlock()
	_, _ = x.ResponseWriter.Write(x.answer.Bytes()) // the client has gone, or is slow
}

func (x *place) leave() {
	x.p.forget(x)
	<-x.p.room
}

// limit sets an end to an answer that is hurried and being written, with p.mu held.
func (x *place) limit() {
	if x.hurried && !x.began.IsZero() {
		_ = http.NewResponseController(x.ResponseWriter).SetWriteDeadline(x.began.Add(patience)) // only recorders have none
	}
}

// hurry gives the oldest that was not hurried yet what is left of its patience.
func (p *places) hurry() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.held) == 0 {
		return
	}
	x := p.held[0]
	p.held = p.held[1:]
	x.hurried = true
	x.limit()
}

func (p *places) forget(x *place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.held {
		if p.held[i] == x {
			p.held = append(p.held[:i], p.held[i+1:]...)
			return
		}
	}
}
