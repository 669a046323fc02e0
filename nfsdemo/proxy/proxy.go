package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/internal/accept"
	"github.com/stag-rdma/stag/internal/setting"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

// ErrClosed is returned by Serve after Close.
var ErrClosed = errors.New("proxy: closed")

const defaultDialTimeout = 10 * time.Second

// Proxy passes the connections of clients on to a server. Set the fields, then call Serve for any number
// of listeners; do not change the fields afterwards. It is safe for concurrent use.
type Proxy struct {
	// Dial opens a record-marked connection to the server for one client, for example with
	// transport.DialConn over RDMA, or net.Dialer.DialContext over TCP. It must be set. When it fails,
	// the proxy itself answers the client for a while: NFSv3 calls with NFS3ERR_JUKEBOX, so that a client
	// that has mounted the server waits for it, and MNT with MNT3ERR_SERVERFAULT.
	Dial func(ctx context.Context) (net.Conn, error)
	// DialTimeout limits the time for Dial. If zero, 10 s; if negative, Serve returns an error.
	DialTimeout time.Duration
	// Check, if not nil, returns an error for a call that the client with this address must not make: the client's
	// connection ends then. It borrows the call.
	Check func(client net.Addr, call *xdr.CallHeader) error
	// Logger receives errors. If nil, nothing is logged.
	Logger *zap.Logger

	accepted, failed, slow atomic.Uint64

	mu     sync.Mutex
	closed bool
	open   map[closer]Client // listeners, the clients' connections, and Dials
	wg     sync.WaitGroup
}

type closer interface{ Close() error }

// Client is the connection of a client. A listener has no Addr.
type Client struct {
	Addr    net.Addr
	Network string // "rdma" or "tcp"
	Since   time.Time
}

// Stats counts the clients of a Proxy.
type Stats struct {
	Accepted uint64 // clients that came
	Failed   uint64 // those for which the server could not be reached
	Slow     uint64 // those that ended because they, or the server, stopped inside a record or did not answer
}

// Serve passes on the clients that l accepts: record-marked connections of a [transport.Listener]
// (clients on RDMA) or of a TCP listener. It takes l. It returns ErrClosed after Close, or the error
// that ended accepting.
func (p *Proxy) Serve(l net.Listener) error {
	if err := setting.Check(setting.Time("DialTimeout", p.DialTimeout)); err != nil {
		_ = l.Close() // it has accepted nobody
		return fmt.Errorf("proxy: %w", err)
	}
	if !p.add(l, Client{}) {
		_ = l.Close() // it has accepted nobody
		return ErrClosed
	}
	defer p.drop(l)
	network := "tcp"
	if _, ok := l.(*transport.Listener); ok {
		network = "rdma"
	}
	err := accept.Serve(context.Background(), l, func(c net.Conn) { // Close closes l
		p.wg.Go(func() { p.client(c, network) })
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrClosed
	}
	return err
}

// client connects one client with the server until either side ends.
func (p *Proxy) client(c net.Conn, network string) {
	p.accepted.Add(1)
	begun := time.Now()
	if !p.add(c, Client{c.RemoteAddr(), network, begun}) {
		_ = c.Close() // the proxy is closing
		return
	}
	defer p.drop(c)
	s, err := p.dial()
	log := p.logger().With(zap.Stringer("client", c.RemoteAddr()), zap.String("transport", network))
	if err != nil {
		p.failed.Add(1)
		log.Warn("proxy: the server cannot be reached", zap.Error(err))
		p.answer(c)
		return
	}
	level := zap.InfoLevel
	if network == "rdma" {
		level = zap.DebugLevel // the listener has said it
	}
	log.Log(level, "proxy: client connected", zap.Stringer("server", s.RemoteAddr()))
	var check func(*xdr.CallHeader) error
	if p.Check != nil {
		check = func(call *xdr.CallHeader) error { return p.Check(c.RemoteAddr(), call) }
	}
	err = transport.RelayChecked(c, s, check)
	if _, slow := errors.AsType[*rpc.SlowPeerError](err); slow {
		p.slow.Add(1)
		level = zap.WarnLevel
	}
	if err == nil {
		err = errEnd
	}
	log.Log(level, "proxy: client gone", zap.NamedError("why", err), zap.Duration("after", time.Since(begun).Round(time.Microsecond)))
}

// dialing is a Dial that Close ends.
type dialing struct{ cancel context.CancelFunc }

func (d *dialing) Close() error {
	d.cancel()
	return nil
}

// dial calls Dial.
func (p *Proxy) dial() (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(p.DialTimeout, defaultDialTimeout))
	d := &dialing{cancel}
	defer p.drop(d)
	if !p.add(d, Client{}) {
		return nil, ErrClosed
	}
	return p.Dial(ctx)
}

// errEnd is why a client is gone whose connection ended in an orderly way.
var errEnd = errors.New("the client or the server closed the connection")

// add notes what Close must close. It returns false if Close has run.
func (p *Proxy) add(c closer, who Client) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	if p.open == nil {
		p.open = make(map[closer]Client)
	}
	p.open[c] = who
	return true
}

// drop closes and forgets.
func (p *Proxy) drop(c closer) {
	_ = c.Close() // most are closed already
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
}

// Clients returns the clients that are connected now, in no order.
func (p *Proxy) Clients() []Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]Client, 0, len(p.open))
	for _, c := range p.open {
		if c.Addr != nil {
			list = append(list, c)
		}
	}
	return list
}

// Drain stops listening, and returns when busy says that no call is being answered, or when ctx ends.
// Close has to follow: the connections stay open.
func (p *Proxy) Drain(ctx context.Context, busy func() bool) {
	p.mu.Lock()
	p.closed = true
	for c := range p.open {
		if l, ok := c.(net.Listener); ok {
			_ = l.Close() // it has accepted all that it will
		}
	}
	p.mu.Unlock()
	for busy() {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
}

// Close stops listening, closes all connections, and returns when they have ended.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	open := p.open
	p.open = nil
	p.mu.Unlock()
	for c := range open {
		_ = c.Close() // it is over either way
	}
	p.wg.Wait()
	return nil
}

// Stats returns the counters.
func (p *Proxy) Stats() Stats {
	return Stats{Accepted: p.accepted.Load(), Failed: p.failed.Load(), Slow: p.slow.Load()}
}

func (p *Proxy) logger() *zap.Logger {
	if p.Logger == nil {
		return zap.NewNop()
	}
	return p.Logger
}
