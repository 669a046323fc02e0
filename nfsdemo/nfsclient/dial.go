package nfsclient

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"syscall"

	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/redial"
	"github.com/stag-rdma/stag/transport/replies"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/transport/rpcbind"
	"github.com/stag-rdma/stag/xdr"
)

// Dial connects to the server of u, finds the export that contains u.Path, mounts it, and returns a
// client for it.
//
// It calls MOUNT over TCP on u.MountPort if that is set. Otherwise it tries the NFS connection itself
// (Choice: servers of this project answer there), and then the TCP port that rpcbind names. A URL
// without a port means the well-known one, or, if nobody listens there, the one that rpcbind names.
func Dial(ctx context.Context, u *URL, cfg *Config) (*Client, error) {
	cfg, err := cfg.fill()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.DialTimeout,
		fmt.Errorf("no answer from %s within %v: %w", u.Addr(), cfg.DialTimeout, context.DeadlineExceeded))
	defer cancel()
	nfs, err := dialLasting(ctx, u, cfg)
	if err != nil {
		return nil, err
	}
	m, done, err := findMount(ctx, u, cfg, nfs)
	if err != nil {
		nfs.Close() //nolint:errcheck // the first error counts
		return nil, err
	}
	defer done()
	export, fh, exports, err := m.attach(ctx, u.Path)
	if err != nil {
		nfs.Close() //nolint:errcheck // the first error counts
		return nil, err
	}
	c, err := New(ctx, nfs, fh, export, cfg)
	if err != nil {
		return nil, err
	}
	c.exports = exports
	return c, nil
}

// findMount finds the MOUNT service. done closes the connection that was opened for it.
func findMount(ctx context.Context, u *URL, cfg *Config, nfs rpc.Caller) (m *Mounter, done func(), err error) {
	addr := u.MountAddr()
	if u.MountPort == 0 {
		m := NewMounter(nfs, cfg.Cred)
		err := m.rpc.null(ctx)
		if err == nil {
			return m, func() {}, nil
		}
		if _, refused := errors.AsType[*xdr.RPCStatusError](err); !refused {
			return nil, nil, err
		}
		if addr, err = registered(ctx, u, cfg, mount3.Program, mount3.Version, rpcbind.NetTCP, rpcbind.NetTCP6); err != nil {
			return nil, nil, &MountServiceError{Host: u.Host, Err: err}
		}
	}
	conn, err := dialConn(ctx, addr, cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("MOUNT service at %s: %w", addr, err)
	}
	tc := cfg.named(u)
	tc.TLS.AllowClear = true
	caller, err := transport.NewStreamClient(ctx, conn, tc)
	if err != nil {
		conn.Close() //nolint:errcheck // the first error counts
		return nil, nil, err
	}
	return NewMounter(caller, cfg.Cred), func() { caller.Close() }, nil //nolint:errcheck // nothing is outstanding
}

// registered returns the address that rpcbind names for a program over the first of netids that it knows.
func registered(ctx context.Context, u *URL, cfg *Config, prog, vers uint32, netids ...string) (addr string, err error) {
	for _, netid := range netids {
		if addr, err = rpcbind.LookupAt(ctx, net.JoinHostPort(u.Host, cfg.rpcbindPort), prog, vers, netid); err == nil {
			return addr, nil
		}
	}
	return "", err
}

// lasting is a Caller that outlives its connections.
type lasting interface {
	rpc.Caller
	Connect(ctx context.Context) error
}

// dialLasting is dialNFS, but with Reconnect or Replies the caller outlives its connections.
func dialLasting(ctx context.Context, u *URL, cfg *Config) (rpc.Caller, error) {
	if cfg.Reconnect <= 0 && cfg.Replies == nil {
		return dialNFS(ctx, u, cfg)
	}
	proved := false // Dial is called by one caller at a time
	rc := redial.Config{
		Dial: func(ctx context.Context) (redial.Conn, error) {
			c, err := dialNFS(ctx, u, cfg)
			if err == nil && !proved {
				// A server of another kind closes the connection, again and again: that is told at once.
				if err = prove(ctx, c); err != nil {
					c.Close() //nolint:errcheck // the first error counts
					return nil, err
				}
				proved = true
			}
			return c, err
		},
		Patience: cfg.Reconnect, Logger: cfg.Transport.Logger,
	}
	var r lasting
	var err error
	if cfg.Replies == nil {
		r, err = redial.New(&rc)
	} else {
		c := *cfg.Replies
		c.Redial, c.Host, c.Logger = rc, u.Host, rc.Logger
		if cfg.Reconnect <= 0 { // a lost connection ends its calls
			c.Redial.Patience, c.Redial.Transmissions = cfg.DialTimeout, 1
		}
		c.Dial = cfg.DialLog(u)
		if c.Choose == nil {
			c.Choose = func(prog, _, proc uint32) bool { return prog == nfs3.Program && !nfs3.Proc(proc).Idempotent() }
		}
		r, err = replies.Open(&c)
	}
	if err != nil {
		return nil, err
	}
	if err := r.Connect(ctx); err != nil {
		r.Close() //nolint:errcheck // nothing is open
		return nil, err
	}
	return r, nil
}

// prove makes a NULL call, to which any answer will do.
func prove(ctx context.Context, c rpc.Caller) error {
	var reply rpc.Reply
	err := c.Do(ctx, &rpc.Call{Prog: nfs3.Program, Vers: nfs3.Version}, &reply)
	reply.Release()
	if _, answered := errors.AsType[*rpc.RPCError](err); answered {
		return nil
	}
	return err
}

// Replies returns the client that holds replies back until they are durable, or nil without
// Config.Replies. This client calls its Done for each call.
func (c *Client) Replies() *replies.Client {
	r, _ := c.rpc.caller.(*replies.Client)
	return r
}

// dialNFS connects to the NFS port of u with its scheme's transport.
func dialNFS(ctx context.Context, u *URL, cfg *Config) (redial.Conn, error) {
	conn, err := dialPort(ctx, u, u.Addr(), cfg)
	if errors.Is(err, syscall.ECONNREFUSED) && !u.given {
		// Choice: the well-known port first, because that takes one round trip if it works.
		netids := []string{rpcbind.NetTCP, rpcbind.NetTCP6}
		if u.Scheme == SchemeRDMA {
			netids = []string{rpcbind.NetRDMA, rpcbind.NetRDMA6}
		}
		if addr, rerr := registered(ctx, u, cfg, nfs3.Program, nfs3.Version, netids...); rerr == nil {
			conn, err = dialPort(ctx, u, addr, cfg)
		}
	}
	if err != nil {
		return nil, err
	}
	return newCaller(ctx, conn, u, cfg)
}

// newCaller starts RPC on a connection, which it takes.
func newCaller(ctx context.Context, conn net.Conn, u *URL, cfg *Config) (caller redial.Conn, err error) {
	switch {
	case u.Scheme != SchemeRDMA:
		caller, err = transport.NewStreamClient(ctx, conn, cfg.named(u))
	case u.TLS != (cfg.Transport.TLS.Config != nil): // nothing goes in clear that was to be protected
		err = &URLError{u.String(), "RDMA within TLS needs both nfs+rdma+tls:// and whom to trust (--tls-ca, Config.Transport.TLS)"}
	default:
		caller, err = transport.NewClient(ctx, conn, cfg.named(u))
	}
	if err != nil {
		conn.Close() //nolint:errcheck // the first error counts
		return nil, err
	}
	return caller, nil
}

// named returns a copy of Transport that wants a certificate for the host of u.
func (c *Config) named(u *URL) *transport.Config {
	t := *c.Transport
	if t.TLS.Config != nil && t.TLS.Config.ServerName == "" {
		t.TLS.Config = t.TLS.Config.Clone()
		t.TLS.Config.ServerName = u.Host
	}
	return &t
}

// DialLog returns how connections of logs at the server of u are opened: with TLS if calls have it. It is the Dial of
// push.Config and of replies.Config.
func (c *Config) DialLog(u *URL) func(ctx context.Context, addr string) (net.Conn, error) {
	return func(ctx context.Context, addr string) (net.Conn, error) {
		f, err := c.fill()
		if err != nil {
			return nil, err
		}
		conn, err := dialConn(ctx, addr, f)
		if err != nil {
			return nil, err
		}
		return transport.BeginTLS(ctx, conn, f.named(u))
	}
}

// dialPort connects to a port of NFS.
func dialPort(ctx context.Context, u *URL, addr string, cfg *Config) (net.Conn, error) {
	if cfg.DialRDMA != nil && u.Scheme == SchemeRDMA {
		return cfg.DialRDMA(ctx, addr)
	}
	return dialConn(ctx, addr, cfg)
}

// dialConn opens a TCP connection, with ReservedPort from a reserved port, and taps it.
func dialConn(ctx context.Context, addr string, cfg *Config) (conn net.Conn, err error) {
	if cfg.ReservedPort {
		conn, err = DialReserved(ctx, addr)
	} else {
		conn, err = new(net.Dialer).DialContext(ctx, "tcp", addr)
	}
	if err != nil {
		return nil, err
	}
	return cfg.Tap(conn), nil
}

// DialReserved opens a TCP connection from a port below 1024, which only root may have.
func DialReserved(ctx context.Context, addr string) (net.Conn, error) {
	const low, high = 600, 1024 // well-known services use ports below 600
	first := rand.IntN(high - low)
	for i := range high - low {
		d := net.Dialer{LocalAddr: &net.TCPAddr{Port: low + (first+i)%(high-low)}}
		conn, err := d.DialContext(ctx, "tcp", addr)
		if !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.EADDRNOTAVAIL) {
			return conn, err
		}
	}
	return nil, fmt.Errorf("no reserved port is free for a connection to %s", addr)
}

// Serves reports whether c can be used for u: whether u is in the export of c, which was dialed with
// the URL dialed.
func (c *Client) Serves(dialed, u *URL) bool {
	if !dialed.SameServer(u) {
		return false
	}
	if len(c.exports) > 0 {
		best, ok := exportOf(c.exports, u.Path)
		return ok && best == c.export
	}
	return within(c.export, u.Path)
}
