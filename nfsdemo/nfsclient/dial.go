package nfsclient

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path"
	"slices"
	"strings"
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

// maxMountReply limits the results of EXPORT and DUMP over RDMA, in octets.
const maxMountReply = 256 << 10

// Mounter calls the MOUNT service (RFC 1813 Section 5). It is safe for concurrent
// use.
type Mounter struct{ rpc program }

// NewMounter makes calls through caller with the identity cred. Closing caller is left to the
// program of NewMounter.
func NewMounter(caller rpc.Caller, cred *xdr.SysCred) *Mounter {
	return &Mounter{program{caller: caller, prog: mount3.Program, vers: mount3.Version, cred: cred.Auth()}}
}

// Exports lists what the server exports (RFC 1813 Section 5.2.5).
func (m *Mounter) Exports(ctx context.Context) ([]mount3.Export, error) {
	var res mount3.ExportRes
	err := m.rpc.do(ctx, &rpc.Call{Proc: uint32(mount3.ProcExport), MaxResults: maxMountReply},
		func(d *xdr.Decoder, _ *rpc.Reply) error { return xdr.Decode(d, &res).Err() })
	return res.Exports, err
}

// Mount returns the handle of a directory (RFC 1813 Section 5.2.1). A refusal is a
// *MountError.
func (m *Mounter) Mount(ctx context.Context, dir string) (nfs3.FileHandle, error) {
	if len(dir) > mount3.MaxPath {
		return nil, &MountError{Path: dir, Status: mount3.ErrNameTooLong}
	}
	args := mount3.PathArgs{Path: dir}
	var fh nfs3.FileHandle
	err := m.rpc.do(ctx, &rpc.Call{Proc: uint32(mount3.ProcMnt), Args: xdr.Encode(nil, &args), MaxResults: 512},
		func(d *xdr.Decoder, _ *rpc.Reply) error {
			var res mount3.MountRes
			if err := xdr.Decode(d, &res).Err(); err != nil {
				return err
			}
			if res.Status != mount3.OK {
				return &MountError{Path: dir, Status: res.Status}
			}
			fh = bytes.Clone(res.Handle)
			return nil
		})
	return fh, err
}

// Unmount tells the server that dir is no longer used (RFC 1813 Section 5.2.3).
func (m *Mounter) Unmount(ctx context.Context, dir string) error {
	args := mount3.PathArgs{Path: dir}
	return m.rpc.do(ctx, &rpc.Call{Proc: uint32(mount3.ProcUmnt), Args: xdr.Encode(nil, &args)}, nil)
}

// attach mounts the export that contains p. exports is the list of the server, nil if it does not
// list them; then attach tries every prefix of p, the longest first.
func (m *Mounter) attach(ctx context.Context, p string) (export string, fh nfs3.FileHandle, exports []string, err error) {
	list, err := m.Exports(ctx)
	if err != nil && !unlisted(err) {
		return "", nil, nil, err
	}
	for _, e := range list {
		exports = append(exports, path.Clean("/"+e.Dir))
	}
	tries := prefixes(p)
	if len(exports) > 0 {
		best, ok := exportOf(exports, p)
		if !ok {
			return "", nil, exports, &ExportError{Path: p, Exports: exports}
		}
		tries = []string{best}
	}
	export, fh, err = m.first(ctx, tries)
	if err == nil && len(exports) == 0 {
		export = m.shortest(ctx, export, fh)
	}
	return export, fh, exports, err
}

// unlisted reports whether err says that the server has no EXPORT procedure. Servers say so by a
// status, or, like go-nfs v0.0.4, by a reply that ends before the status.
func unlisted(err error) bool {
	if _, ok := errors.AsType[*xdr.RPCStatusError](err); ok {
		return true
	}
	e, ok := errors.AsType[*rpc.RPCError](err)
	return ok && e.Reason == rpc.ReasonBadReply
}

// shortest returns the shortest prefix of dir that has the same handle fh as dir. Servers with one
// export, such as those built on go-nfs, may return its root for any path.
func (m *Mounter) shortest(ctx context.Context, dir string, fh nfs3.FileHandle) string {
	for dir != "/" {
		parent := path.Dir(dir)
		if h, err := m.Mount(ctx, parent); err != nil || !bytes.Equal(h, fh) {
			break
		}
		dir = parent
	}
	return dir
}

// first mounts the first of dirs that the server does not refuse. If it refuses all, first returns
// the error for the first one, which is the longest path.
func (m *Mounter) first(ctx context.Context, dirs []string) (dir string, fh nfs3.FileHandle, err error) {
	for _, dir := range dirs {
		fh, merr := m.Mount(ctx, dir)
		if merr == nil {
			return dir, fh, nil
		}
		if _, refused := errors.AsType[*MountError](merr); !refused {
			return "", nil, merr
		}
		if err == nil {
			err = merr
		}
	}
	return "", nil, err
}

// exportOf returns the longest export that contains p.
func exportOf(exports []string, p string) (string, bool) {
	var in []string
	for _, e := range exports {
		if within(e, p) {
			in = append(in, e)
		}
	}
	if len(in) == 0 {
		return "", false
	}
	return slices.MaxFunc(in, func(a, b string) int { return cmp.Compare(len(a), len(b)) }), true
}

// within reports whether clean path p is dir or below it.
func within(dir, p string) bool {
	return dir == "/" || p == dir || strings.HasPrefix(p, dir+"/")
}

// prefixes returns p, its parent, and so on up to "/".
func prefixes(p string) []string {
	list := []string{p}
	for p != "/" {
		p = path.Dir(p)
		list = append(list, p)
	}
	return list
}
