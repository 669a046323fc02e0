package push

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/stag-rdma/stag/internal/accept"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/transport/commitlog"
	"go.uber.org/zap"
)

// errToken rejects a connection whose token is unknown, used or void.
var errToken = errors.New("push: no session has this token")

// Serve takes l and accepts commit connections from it. It returns ErrServerClosed, or the first
// error of Accept. While the process is out of file descriptors, it waits instead.
func (s *Server) Serve(l net.Listener) error {
	s.init()
	defer l.Close()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrServerClosed
	}
	s.listeners[l] = struct{}{}
	s.mu.Unlock()
	for {
		nc, err := accept.Next(s.ctx, l)
		if err != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.listeners, l)
			if s.closed {
				return ErrServerClosed
			}
			return err
		}
		go func() {
			if err := s.ServeConn(nc); err != nil {
				s.log.Info("push: commit connection ended", zap.Error(err))
			}
		}()
	}
}

// ServeConn takes the commit connection nc, serves it until it ends, and returns why it ended. A
// connection without a token in its MPA Request is rejected.
func (s *Server) ServeConn(nc net.Conn) error {
	s.init()
	var sess *session
	cfg := commitlog.Config(s.RDMA)
	cfg.Accept = func(req *mpa.Request) ([]byte, error) {
		if sess = s.redeem(req.PrivateData); sess == nil {
			s.ctr.rejected.Add(1)
			return nil, errToken
		}
		return nil, nil
	}
	if !s.strangers.Enter(nc.RemoteAddr(), max(s.lim.MaxConns/8, 1)) {
		_ = nc.Close() // nothing was sent on it
		s.ctr.rejected.Add(1)
		return errTooManyConns
	}
	known := sync.OnceFunc(func() { s.strangers.Leave(nc.RemoteAddr()) })
	defer known()
	c := rdmap.Server(nc, cfg)
	if err := s.addConn(c); err != nil {
		c.Abort(err)
		return err
	}
	defer s.dropConn(c)
	if err := c.Handshake(s.ctx); err != nil {
		return err
	}
	known()
	return s.serveSession(c, sess)
}

// redeem returns the session of a token, which is used from then on.
func (s *Server) redeem(privateData []byte) *session {
	k, ok := parsePrivateData(privateData)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(time.Now())
	sess := s.tokens[k]
	delete(s.tokens, k)
	if !ok {
		return nil
	}
	return sess
}

// serveSession lets the producer at the other end of c append.
func (s *Server) serveSession(c *rdmap.Conn, sess *session) error {
	a, err := s.attach(c, sess)
	if err == nil {
		err = c.Post([]rdmap.WR{{Op: rdmap.OpSend, Head: a.Append(nil)}})
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
	if c.ConnectionState().Extensions&rdmap.ExtCommit == 0 {
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

// errTooManyConns: Limits.MaxConns is reached.
var errTooManyConns = errors.New("push: too many commit connections (raise Limits.MaxConns)")

func (s *Server) addConn(c *rdmap.Conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return ErrServerClosed
	case len(s.conns) >= s.lim.MaxConns:
		return errTooManyConns
	}
	s.conns[c] = struct{}{}
	return nil
}

func (s *Server) dropConn(c *rdmap.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}
