package rping

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/stag-rdma/stag/internal/accept"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// MaxConns is the number of connections that Serve answers at a time; others wait in the listener's queue.
const MaxConns = 64

// Server answers the connections of a listener.
type Server struct {
	CRC     rdmap.CRCMode
	Conns   int           // stop after this many connections; 0: never
	Timeout time.Duration // limit of one connection; 0: one minute
	// Report is called at the end of each connection, one at a time; may be nil.
	Report func(Result)
}

// Result is the end of one connection.
type Result struct {
	Remote net.Addr
	State  rdmap.ConnectionState
	Pings  int   // answered
	Err    error // nil: the client closed the connection between two pings
}

// Serve accepts connections of l, and closes l, until Conns have been answered, ctx is over or l fails. It
// returns when the connections have ended: nil, or the error of l. The end of ctx ends the connections and
// is not an error.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	defer l.Close()
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex // one Report at a time
		busy = make(chan struct{}, MaxConns)
	)
	defer wg.Wait()
	n := 0
	err := accept.Serve(ctx, l, func(nc net.Conn) {
		if n++; n == s.Conns {
			_ = l.Close()
		}
		busy <- struct{}{}
		wg.Go(func() {
			r := s.conn(ctx, nc)
			<-busy
			if s.Report != nil {
				mu.Lock()
				defer mu.Unlock()
				s.Report(r)
			}
		})
	})
	if errors.Is(err, net.ErrClosed) && (ctx.Err() != nil || n > 0 && n == s.Conns) {
		return nil
	}
	return err
}

// conn answers one connection.
func (s *Server) conn(ctx context.Context, nc net.Conn) Result {
	limit := s.Timeout
	if limit == 0 {
		limit = time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r := Result{Remote: nc.RemoteAddr()}
	c := rdmap.Server(nc, Config(s.CRC))
	defer c.Close()
	if r.Err = c.Handshake(ctx); r.Err != nil {
		return r
	}
	r.State = c.ConnectionState()
	r.Pings, r.Err = Echo(ctx, c)
	return r
}

// PeerError reports what was met where an rping server should be. It wraps the error that showed it.
type PeerError struct {
	Met string
	Err error
}

// Error says what was met.
func (e *PeerError) Error() string { return "rping: met " + e.Met }

// Unwrap returns Err.
func (e *PeerError) Unwrap() error { return e.Err }

// witness keeps the first octets that a connection reads.
type witness struct {
	net.Conn
	first []byte
}

func (w *witness) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.first = append(w.first, b[:min(n, 40-len(w.first))]...)
	return n, err
}

// met says what the peer seems to be, if a handshake has failed with err.
func (w *witness) met(err error) error {
	switch {
	case errors.Is(err, mpa.ErrKey):
		return &PeerError{fmt.Sprintf("a peer that does not speak iWARP: it says %q", w.first), err}
	case errors.Is(err, verbs.ErrOlderPeer):
		return &PeerError{"a peer that closes the connection when it gets an MPA Request: it speaks another protocol, or only MPA revision 1", err}
	case len(w.first) == 0 && errors.Is(err, context.DeadlineExceeded):
		return &PeerError{"a peer that takes connections, but does not answer an MPA Request: it speaks another protocol, or hangs", err}
	}
	return err
}

// Dial connects to an rping server over TCP, makes the pings of opt and closes the connection. The state is
// that of the connection, even if a ping failed. Errors are those of the network and of Ping, or a *PeerError.
func Dial(ctx context.Context, addr string, crc rdmap.CRCMode, opt *Options) (rdmap.ConnectionState, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return rdmap.ConnectionState{}, err
	}
	w := &witness{Conn: nc}
	c := rdmap.Client(w, Config(crc))
	if err := c.Handshake(ctx); err != nil {
		c.Abort(err)
		<-c.Done() // nobody reads from w anymore
		return rdmap.ConnectionState{}, w.met(err)
	}
	state := c.ConnectionState()
	if err := Ping(ctx, c, opt); err != nil {
		c.Abort(err)
		if errors.Is(err, context.DeadlineExceeded) {
			err = &PeerError{"an iWARP peer that does not answer pings: is it an rping server?", err}
		}
		return state, err
	}
	return state, c.Close()
}
