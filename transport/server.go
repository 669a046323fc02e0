package transport

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/stag-rdma/stag/internal/accept"
	"github.com/stag-rdma/stag/transport/internal/admit"
	"github.com/stag-rdma/stag/transport/internal/execute"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/internal/requester"
	"github.com/stag-rdma/stag/transport/internal/responder"
	"github.com/stag-rdma/stag/transport/internal/stream"
	"github.com/stag-rdma/stag/transport/rpc"
)

// ErrServerClosed is returned by Serve and ServeStream after Shutdown or Close.
var ErrServerClosed = errors.New("transport: server closed")

// Server serves RPC calls from RDMA and record-marked TCP connections with one Handler. Set the
// fields, then call Serve, ServeStream or ServeConn, in any number of goroutines. The fields must
// not change afterwards. It is safe for concurrent use.
type Server struct {
	// Handler serves the calls. It must be set, or Each.
	Handler rpc.Handler
	// Each, if set, says what serves the calls of a connection that was accepted, instead of Handler. It borrows conn.
	Each func(conn net.Conn) Served
	// Config holds limits and timeouts; nil means the defaults.
	Config *Config

	once   sync.Once
	cfg    *Config
	cfgErr error
	ctx    context.Context // of all handlers; ends with Close, or with a Shutdown that is out of time
	cancel context.CancelFunc
	ctr    memory.Counters
	gate   *admit.Gate
	exec   *execute.Executor
	stream *stream.Service
	resp   *responder.Config

	all Served // of connections without another one

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	conns     map[servedConn]time.Time // since when
	closing   bool
	idle      chan struct{} // closed when closing and no connection is left
}

// Served is what serves one connection.
type Served struct {
	Handler rpc.Handler
	// Context, if not nil, ends the connection when it ends: no more calls are taken then, and those that have come are
	// answered.
	Context context.Context
	// Over, if not nil, is called when the connection and all its calls have ended.
	Over func()
}

// drains has c end with the context of by.
func (by *Served) drains(c servedConn) (stop func() bool) {
	if by.Context == nil {
		return nil
	}
	return context.AfterFunc(by.Context, c.Drain)
}

// servedConn is a connection of either kind.
type servedConn interface {
	Drain() // accepts no more calls; ends when the running ones are answered
	Abort() // ends now
}

// init prepares s at first use.
func (s *Server) init() error {
	s.once.Do(func() {
		s.cfg, s.cfgErr = s.Config.fill()
		if s.cfgErr == nil && s.Handler == nil && s.Each == nil {
			s.cfgErr = errors.New("transport: Server.Handler is not set")
		}
		if s.cfgErr != nil {
			return
		}
		s.cfg.asServer()
		s.ctx, s.cancel = context.WithCancel(context.Background())
		s.resp = s.cfg.responder()
		s.gate = admit.New(s.cfg.gate(), &s.ctr)
		s.exec = execute.New(s.ctx, execute.NewDuplicates(s.cfg.duplicates()), &s.ctr, s.cfg.Logger, s.cfg.Logger == noLogger, s.cfg.GSS.server())
		s.stream = stream.NewService(s.ctx, s.cfg.stream(), &s.ctr, s.gate, s.exec, stream.Hooks{
			Add:  func(c *stream.Conn) error { return s.addConn(c) },
			Drop: func(c *stream.Conn) { s.dropConn(c) }, Closed: ErrServerClosed,
		})
		s.listeners = make(map[net.Listener]struct{})
		s.conns = make(map[servedConn]time.Time)
		s.idle = make(chan struct{})
		s.all.Handler = s.Handler
	})
	return s.cfgErr
}

// Serve takes l, accepts connections from it, and serves RPC-over-RDMA on them. It returns
// ErrServerClosed, or the first error of Accept that is not temporary.
func (s *Server) Serve(l net.Listener) error {
	return s.accept(l, s.Each, func(c net.Conn, by *Served, turn execute.Turn) error { return s.serveConn(c, by, nil, turn) })
}

// ServeStream takes l, accepts connections from it, and serves record-marked RPC on them (RFC
// 5531 Section 11).
func (s *Server) ServeStream(l net.Listener) error { return s.accept(l, s.Each, s.serveStreamOf) }

// ServeStreamHandler is ServeStream with another Handler, for a port on which only some of the programs
// are served. Limits are those of s.
func (s *Server) ServeStreamHandler(l net.Listener, h rpc.Handler) error {
	return s.accept(l, func(net.Conn) Served { return Served{Handler: h} }, s.serveStreamOf)
}

// accept runs serve in a goroutine for each connection of l, with what each says, or s.all if it is nil.
func (s *Server) accept(l net.Listener, each func(net.Conn) Served, serve func(net.Conn, *Served, execute.Turn) error) error {
	if err := given("listener", l); err != nil {
		return err
	}
	defer l.Close()
	if err := s.addListener(l); err != nil {
		return err
	}
	defer s.dropListener(l)
	err := accept.Serve(s.ctx, l, func(c net.Conn) {
		turn := s.exec.Turn() // here, because goroutines begin in any order
		go func() {
			by := &s.all
			if each != nil {
				own := each(c)
				by = &own
			}
			_ = serve(c, by, turn) // it has logged its error
			if by.Over != nil {
				by.Over()
			}
		}()
	})
	if s.isClosing() {
		return ErrServerClosed
	}
	return rpc.AsOpError(rpc.OpAccept, l.Addr().String(), err)
}

func (s *Server) addListener(l net.Listener) error {
	if err := s.init(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return ErrServerClosed
	}
	s.listeners[l] = struct{}{}
	return nil
}

func (s *Server) dropListener(l net.Listener) {
	s.mu.Lock()
	delete(s.listeners, l)
	s.mu.Unlock()
}

func (s *Server) isClosing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

// addConn adds a connection that the gate has admitted.
func (s *Server) addConn(c servedConn) error {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return ErrServerClosed
	}
	s.conns[c] = time.Now() // under the lock with closing: stop finds it, or it is not served
	s.ctr.Conns.Add(1)
	s.mu.Unlock()
	// Whom to trust may have changed since the handshake of TLS: from here on, RecheckTLS finds it.
	err := s.cfg.TLS.verify(c)
	if err != nil {
		s.dropConn(c)
	}
	return err
}

// dropConn forgets a connection that has ended, including its handlers.
func (s *Server) dropConn(c servedConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := c.(*rdmaServed); ok {
		s.ctr.Takeovers.Add(r.rc.Conn.Stats().Takeovers)
	}
	delete(s.conns, c)
	s.ctr.Conns.Add(-1)
	s.checkIdle()
}

// checkIdle ends the wait of Shutdown if no connection is left. The caller holds s.mu.
func (s *Server) checkIdle() {
	if s.closing && len(s.conns) == 0 {
		select {
		case <-s.idle:
		default:
			close(s.idle)
		}
	}
}

// stop closes the listeners and calls f for every connection.
func (s *Server) stop(f func(servedConn)) {
	s.mu.Lock()
	s.closing = true
	for l := range s.listeners {
		_ = l.Close() // if it fails, there is nothing to do
	}
	conns := make([]servedConn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.checkIdle()
	s.mu.Unlock()
	for _, c := range conns { // without the lock, which dropConn takes
		f(c)
	}
}

// Shutdown stops accepting connections and calls, answers the calls that have arrived, and closes
// every connection after its last reply was sent. If ctx ends first, the rest is aborted and
// Shutdown returns ctx's error. Calls that arrive meanwhile are not executed: their clients see
// the connection end, and may send them again.
func (s *Server) Shutdown(ctx context.Context) error {
	if err := s.init(); err != nil {
		return err
	}
	s.stop(servedConn.Drain)
	select {
	case <-s.idle:
		s.cancel() // only now: until here the handlers were to finish
		return nil
	case <-ctx.Done():
		_ = s.Close() // ctx's error says more
		return rpc.AsOpError(rpc.OpClose, "", context.Cause(ctx))
	}
}

// Close closes listeners and connections at once and cancels the handlers'
// contexts. It does not wait for handlers.
func (s *Server) Close() error {
	if err := s.init(); err != nil {
		return err
	}
	s.stop(servedConn.Abort) // first: the reply of a cancelled handler must not be sent
	s.cancel()
	return nil
}

// Stats returns the counters of all connections, past ones included.
func (s *Server) Stats() rpc.Stats {
	if s.init() != nil {
		return rpc.Stats{}
	}
	st := requester.StatsOf(&s.ctr)
	st.Credits = s.cfg.Credits
	s.exec.Duplicates.AddStats(&st)
	s.gate.AddStats(&st)
	st.GSSContexts = s.exec.Contexts()
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		addTLS(&st, c)
		if r, ok := c.(*rdmaServed); ok {
			st.Takeovers += r.rc.Conn.Stats().Takeovers
		}
	}
	return st
}

// ServedClient is a connection that a [Server] serves.
type ServedClient struct {
	Addr    net.Addr
	Network string    // and what protects it: "rdma", "rdma+tls", "tcp", "tls", "mtls: CN=client"
	Since   time.Time // when it was accepted
	// OctetsIn and OctetsOut are what came and left on the byte stream, after the start-up; 0 over TCP,
	// where nobody counts them.
	OctetsIn, OctetsOut uint64
}

// Clients returns the connections that are served now, in no order. Those whose start-up has not ended
// are among them.
func (s *Server) Clients() []ServedClient {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]ServedClient, 0, len(s.conns))
	for c, since := range s.conns {
		switch c := c.(type) {
		case *rdmaServed:
			st := c.rc.Conn.Stats()
			list = append(list, ServedClient{Addr: c.addr, Network: c.network(), Since: since, OctetsIn: st.OctetsIn, OctetsOut: st.OctetsOut})
		case *stream.Conn:
			list = append(list, ServedClient{Addr: c.RemoteAddr(), Network: stream.NameOf("tcp", c.TLS()), Since: since})
		}
	}
	return list
}

// Disconnect ends the connections of clients whose addresses are in which, at once, and returns how many those were. Nothing
// keeps such a client from connecting again.
func (s *Server) Disconnect(which func(net.Addr) bool) (n int) {
	var list []servedConn
	s.mu.Lock()
	for c := range s.conns {
		switch c := c.(type) {
		case *rdmaServed:
			if which(c.addr) {
				list = append(list, c)
			}
		case *stream.Conn:
			if which(c.RemoteAddr()) {
				list = append(list, c)
			}
		}
	}
	s.mu.Unlock()
	for _, c := range list {
		c.Abort()
	}
	return len(list)
}
