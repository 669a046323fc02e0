package push

import (
	"net"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// Serve takes l and accepts commit connections from it. It returns ErrServerClosed, or the first
// error of Accept. While the process is out of file descriptors, it waits instead.
func (s *Server) Serve(l net.Listener) error {
	if err := s.init(); err != nil {
		_ = l.Close() // it has accepted nobody
		return err
	}
	return s.side.Serve(l, func(nc net.Conn) error {
		return s.side.ServeConn(nc, commitlog.Config(nil), s.serveSession)
	})
}

// serveSession lets the producer at the other end of c append.
func (s *Server) serveSession(c *rdmap.Conn, sess *session) error {
	a, err := s.attach(c, sess)
	if err == nil {
		err = c.Post([]verbs.WR{{Op: verbs.OpSend, Head: a.Append(nil)}})
	}
	if err != nil {
		c.Abort(err)
		return err
	}
	s.ctr.native.Add(1)
	err = c.Serve()
	s.mu.Lock()
	s.drop(sess)
	s.mu.Unlock()
	return err
}

// attach gives the session to c. If c lacks the extension, the session stays as it is: its client
// appends by call.
func (s *Server) attach(c *rdmap.Conn, sess *session) (*commitlog.Answer, error) {
	if c.ConnectionState().Extensions&verbs.ExtCommit == 0 {
		return nil, commitlog.ErrNoExtension
	}
	if st := sess.claim(c); st != StatusOK {
		return nil, st
	}
	a, err := sess.prep.Attach(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && sess.over { // dropped before it had a connection to abort
		err = errFenced
	}
	return a, err
}
