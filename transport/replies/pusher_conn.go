package replies

import (
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// Errors of connections to logs.
var (
	errAnswer = errors.New("replies: the log is not the one that was appended to")
	errNewer  = errors.New("replies: the client has connected its log again")
	errSilent = errors.New("replies: the client has not told where its log is")
)

// Serve takes l and accepts log connections from it. It returns ErrClosed, or the first error of
// Accept. While the process is out of file descriptors, it waits instead.
func (p *Pusher) Serve(l net.Listener) error {
	if err := p.init(); err != nil {
		_ = l.Close() // it has accepted nobody
		return err
	}
	return p.side.Serve(l, p.serveConn)
}

// upcalls handles the messages on the connection of a log: first the answer, which opens the
// session, then messages for its producer.
type upcalls struct {
	prod   atomic.Pointer[commitlog.Producer]
	answer chan *commitlog.Answer // one slot
}

// HandleRecv implements rdmap.Handler.
func (u *upcalls) HandleRecv(c *rdmap.Conn, m *verbs.Message) {
	if p := u.prod.Load(); p != nil {
		p.HandleRecv(c, m)
		return
	}
	c.PostRecv(1)
	if a, err := commitlog.ParseAnswer(m.Data); err == nil {
		select {
		case u.answer <- a:
		default:
		}
	}
}

// HandleClose implements rdmap.Handler.
func (u *upcalls) HandleClose(c *rdmap.Conn, err error) {
	if p := u.prod.Load(); p != nil {
		p.HandleClose(c, err)
	}
}

// serveConn serves a log connection until it ends, and returns why it ended.
func (p *Pusher) serveConn(nc net.Conn) error {
	u := &upcalls{answer: make(chan *commitlog.Answer, 1)}
	cfg := commitlog.Config(nil)
	cfg.Handler = u
	return p.side.ServeConn(nc, cfg, func(c *rdmap.Conn, cl *client) error { return p.append(c, cl, u) })
}

// append appends the records of cl over c, after its answer.
func (p *Pusher) append(c *rdmap.Conn, cl *client, u *upcalls) error {
	p.mu.Lock()
	old := cl.conn
	cl.conn = c
	p.use(cl)
	p.mu.Unlock()
	if old != nil {
		old.Abort(errNewer) // a client has one, or it could take the places of others
	}
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if cl.conn == c {
			cl.conn = nil
		}
		p.unuse(cl)
	}()
	served := make(chan error, 1)
	go func() { served <- c.Serve() }()
	timeout := time.NewTimer(p.silence)
	defer timeout.Stop()
	select {
	case a := <-u.answer:
		u.prod.Store(cl.prod)
		if !cl.attach(c, a) {
			c.Abort(errAnswer)
			<-served
			p.forgetNow(cl)
			return errAnswer
		}
	case <-timeout.C:
		c.Abort(errSilent)
		return <-served
	case err := <-served:
		return err
	}
	defer cl.detach(c)
	if err := c.Post([]verbs.WR{{Op: verbs.OpSend}}); err != nil { // from now on the client may make calls
		c.Abort(err)
	}
	return <-served
}

// forgetNow forgets a client whose records cannot continue. If it offers again, it is a new client.
func (p *Pusher) forgetNow(c *client) {
	p.mu.Lock()
	if p.clients[c.key] == c {
		delete(p.clients, c.key)
	}
	for addr, b := range p.bound {
		if b.c == c {
			delete(p.bound, addr)
			b.stop()
			c.uses--
		}
	}
	p.mu.Unlock()
	c.close()
}
