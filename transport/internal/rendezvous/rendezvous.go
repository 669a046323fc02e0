// Package rendezvous connects a client with its server a second time, for the RDMA of a log. The server gives out a
// token with the reply to an RPC; the client shows it in the MPA Request of the other connection, so that
// the server knows what that is for before it answers.
package rendezvous

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/internal/accept"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

// Token is good for one connection, for a while.
type Token [tokenLen]byte

const (
	tokenLen = 16
	maxAddr  = 255
	// magic begins the MPA private data; the token follows, and nothing else.
	magic = "stagside"
)

// PrivateData returns the private data of an MPA Request that shows t.
func PrivateData(t Token) []byte { return append([]byte(magic), t[:]...) }

func parse(b []byte) (t Token, ok bool) {
	if len(b) != len(magic)+tokenLen || string(b[:len(magic)]) != magic {
		return t, false
	}
	return Token(b[len(magic):]), true
}

// Place is where a token is good, and how long (docs/push.x, push_commit).
type Place struct {
	Token        Token
	Addr         string // host:port; without host: that of the server
	Milliseconds uint32
}

// Code writes or reads p.
func (p *Place) Code(c *xdr.Coder) {
	c.Fixed(p.Token[:])
	c.String(&p.Addr, maxAddr)
	c.Uint32(&p.Milliseconds)
}

// Dialer opens a connection to an address; nil: by TCP.
type Dialer = func(ctx context.Context, addr string) (net.Conn, error)

// Open opens a connection to addr, in which host stands in for a missing host. The error names the connection.
func Open(ctx context.Context, addr, host string, dial Dialer) (net.Conn, error) {
	if h, port, err := net.SplitHostPort(addr); err == nil && h == "" {
		addr = net.JoinHostPort(host, port)
	}
	if dial == nil {
		dial = func(ctx context.Context, addr string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", addr)
		}
	}
	nc, err := dial(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("connection of the log: %w", err)
	}
	return nc, nil
}

// Dial connects to p with Open, as far as the token is good. cfg is copied. The error names the connection.
func Dial(ctx context.Context, p *Place, host string, dial Dialer, cfg *rdmap.Config) (*rdmap.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(p.Milliseconds)*time.Millisecond)
	defer cancel()
	nc, err := Open(ctx, p.Addr, host, dial)
	if err != nil {
		return nil, err
	}
	own := *cfg
	own.Startup.PrivateData = PrivateData(p.Token)
	c := rdmap.Client(nc, &own)
	if err := c.Handshake(ctx); err != nil {
		return nil, fmt.Errorf("connection of the log: %w", err)
	}
	return c, nil
}

// Errors of connections.
var (
	ErrToken = errors.New("no RPC has given out this token")
	ErrConns = errors.New("too many connections of logs")
)

// Acceptor takes the connections for which it has given out tokens. S is what a connection is for. Set the fields
// before the first call. It is safe for concurrent use.
type Acceptor[S any] struct {
	// MaxConns limits the connections. One host may have an eighth as many that have not shown a token yet.
	MaxConns int
	// Life is how long a token is good. If zero, 10 s.
	Life time.Duration
	// TLS is that of the connections; the zero value: off.
	TLS transport.TLS
	// Closed is the error after Close.
	Closed error
	Logger *zap.Logger
	// Rejected counts the connections that were too many, or had no valid token.
	Rejected atomic.Uint64

	strangers accept.Strangers // connections that have shown no token
	mu        sync.Mutex
	offers    map[Token]offer[S]
	conns     map[*rdmap.Conn]*tls.ConnectionState // nil: in clear
	listeners map[net.Listener]struct{}
	closed    bool
}

type offer[S any] struct {
	s     S
	until time.Time
}

// Offer returns where s can be had: at addr, with a token.
func (a *Acceptor[S]) Offer(s S, addr string) Place {
	life := cmp.Or(a.Life, 10*time.Second)
	p := Place{Addr: addr, Milliseconds: uint32(life.Milliseconds())}
	_, _ = rand.Read(p.Token[:]) // never fails, by its documentation
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	for t, o := range a.offers {
		if now.After(o.until) {
			delete(a.offers, t)
		}
	}
	if a.offers == nil {
		a.offers = make(map[Token]offer[S])
	}
	a.offers[p.Token] = offer[S]{s, now.Add(life)}
	return p
}

// Withdraw makes a token void.
func (a *Acceptor[S]) Withdraw(t Token) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.offers, t)
}

// Redeem returns what the token in private data is for. It is used from then on.
func (a *Acceptor[S]) Redeem(privateData []byte) (s S, ok bool) {
	t, ok := parse(privateData)
	a.mu.Lock()
	defer a.mu.Unlock()
	o, known := a.offers[t]
	if !ok || !known {
		return s, false
	}
	delete(a.offers, t)
	return o.s, !time.Now().After(o.until)
}

// Conns returns the number of connections.
func (a *Acceptor[S]) Conns() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.conns)
}

// Serve takes l, accepts connections and passes them to conn, each in its own goroutine. It returns Closed, or the first
// error of Accept. While the process is out of file descriptors, it waits instead.
func (a *Acceptor[S]) Serve(l net.Listener, conn func(net.Conn) error) error {
	defer l.Close()
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return a.Closed
	}
	if a.listeners == nil {
		a.listeners = make(map[net.Listener]struct{})
	}
	a.listeners[l] = struct{}{}
	a.mu.Unlock()
	err := accept.Serve(context.Background(), l, func(nc net.Conn) { // Close closes l
		go func() {
			if err := conn(nc); err != nil {
				a.Logger.Info("connection of a log ended", zap.Stringer("of", nc.RemoteAddr()), zap.Error(err))
			}
		}()
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.listeners, l)
	if a.closed {
		return a.Closed
	}
	return err
}

// ServeConn takes nc, passes it to run if it shows a token, and returns why it ended. cfg belongs to ServeConn.
func (a *Acceptor[S]) ServeConn(nc net.Conn, cfg *rdmap.Config, run func(*rdmap.Conn, S) error) error {
	var s S
	cfg.Startup.Accept = func(req *mpa.Request) ([]byte, error) {
		var ok bool
		if s, ok = a.Redeem(req.PrivateData); !ok {
			a.Rejected.Add(1)
			return nil, ErrToken
		}
		return nil, nil
	}
	if !a.strangers.Enter(nc.RemoteAddr(), max(a.MaxConns/8, 1)) {
		_ = nc.Close() // nothing was sent on it
		a.Rejected.Add(1)
		return ErrConns
	}
	of := nc.RemoteAddr()
	known := sync.OnceFunc(func() { a.strangers.Leave(of) })
	defer known()
	var state *tls.ConnectionState
	if a.TLS.Config != nil {
		var err error
		if nc, cfg.Startup.BufferedInput, err = transport.AcceptTLS(context.Background(), nc, &transport.Config{TLS: a.TLS}); err != nil {
			return err
		}
		if t, ok := nc.(*tls.Conn); ok {
			s := t.ConnectionState()
			if state = &s; len(s.VerifiedChains) == 0 {
				state.PeerCertificates = nil // nobody has asked whether they are good
			}
		}
	}
	c := rdmap.Server(nc, cfg)
	err := a.add(c, state)
	if err == nil {
		defer a.drop(c)
		err = a.verify(state) // once more: from here on RecheckTLS finds it
	}
	if err != nil {
		c.Abort(err)
		return err
	}
	if err := c.Handshake(context.Background()); err != nil { // Close ends it
		return err
	}
	known()
	return run(c, s)
}

func (a *Acceptor[S]) add(c *rdmap.Conn, state *tls.ConnectionState) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.closed:
		return a.Closed
	case len(a.conns) >= a.MaxConns:
		a.Rejected.Add(1)
		return ErrConns
	}
	if a.conns == nil {
		a.conns = make(map[*rdmap.Conn]*tls.ConnectionState)
	}
	a.conns[c] = state
	return nil
}

func (a *Acceptor[S]) drop(c *rdmap.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.conns, c)
}

// verify asks whether what protects a connection is still trusted.
func (a *Acceptor[S]) verify(state *tls.ConnectionState) error {
	if state == nil || a.TLS.Config.VerifyConnection == nil {
		return nil
	}
	return a.TLS.Config.VerifyConnection(*state)
}

// RecheckTLS is that of transport.Server.
func (a *Acceptor[S]) RecheckTLS() {
	a.mu.Lock()
	conns := maps.Clone(a.conns)
	a.mu.Unlock()
	for c, state := range conns {
		if err := a.verify(state); err != nil {
			c.Abort(err)
		}
	}
}

// Close ends all connections and listeners, and makes all tokens void.
func (a *Acceptor[S]) Close() {
	a.mu.Lock()
	a.closed = true
	clear(a.offers)
	for l := range a.listeners {
		_ = l.Close() // if it fails, there is nothing to do
	}
	var conns []*rdmap.Conn
	for c := range a.conns {
		conns = append(conns, c)
	}
	a.mu.Unlock()
	for _, c := range conns {
		c.Abort(a.Closed)
	}
}
