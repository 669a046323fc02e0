package cli

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/internal/cliout"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/nfsdemo/proxy"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

// proxyFlags are the flags of proxy.
type proxyFlags struct {
	listen, mount string // addresses
	status        string // for HTTP
	sockets       *sockets
	to            string // URL of the server
	portFile      string
	crc           transport.CRCMode
	backward      int // calls of the server in flight to one client; 0: passes none on
	limits        limitFlags
	log           *slog.Logger
	tls, toTLS    tlsFiles
	front, back   *serverTLS // of clients, and of the server; nil: none
}

// proxyCmd is the command proxy.
func (a *app) proxyCmd() *cobra.Command {
	f := &proxyFlags{}
	cmd := &cobra.Command{
		Use:   "proxy --to URL",
		Short: "Make an NFS/TCP server reachable over RDMA, or the reverse",
		Long: `proxy passes NFS clients on to another server. With --to nfs://HOST[:PORT] it listens
for NFS/RDMA clients and speaks NFS/TCP to the server; with --to nfs+rdma://HOST[:PORT]
it listens for NFS/TCP clients and speaks NFS/RDMA. Each client gets its own connection
to the server; XIDs, credentials and verifiers pass unchanged. The data of NFSv3 travel
in RDMA chunks; calls of other programs pass inline or as long messages.

With ?mountport=N in the URL and --mount-listen, proxy passes MOUNT on too, over TCP.

The server sees the address of the proxy, not those of the clients: export to that
address, and use --allow to say who may use the proxy. For MOUNT there are at most 256 connections, 32
of one client address.

The proxy checks its server when it starts, and every 10 seconds; it says when the server
is lost and when it is back. Meanwhile it answers NFSv3 calls with NFS3ERR_JUKEBOX, so that
clients that have mounted the server wait for it, and refuses new mounts. Interrupt it
(Ctrl-C, SIGTERM) to stop: calls from RDMA clients that have arrived are answered before.`,
		Example: `  nfsdemo proxy --to nfs://127.0.0.1:2049
  nfsdemo proxy --to 'nfs://fileserver?mountport=20048' --mount-listen 127.0.0.1:20048
  nfsdemo proxy --to nfs+rdma://127.0.0.1:20049 --listen 127.0.0.1:2049
  nfsdemo proxy --to nfs://127.0.0.1:2049 --backward 16
  nfsdemo proxy --to nfs://127.0.0.1:2049 --listen :20049 --allow 192.0.2.0/24`,
		Args: nArgs(0, 0, "no arguments, only flags"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.proxy(cmd.Context(), f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.to, "to", "", "`URL` of the server, nfs://HOST[:PORT], nfs+rdma://HOST[:PORT] or nfs+rdma+tls://HOST[:PORT]")
	flags.StringVar(&f.listen, "listen", "", "`address` for clients (default 127.0.0.1:20049, or 127.0.0.1:2049 with --to nfs+rdma://)")
	f.tls.serverFlags(cmd, "clients must use TLS, but for MOUNT")
	flags.StringVar(&f.toTLS.ca, "to-ca", "", "call the server with TLS, but for MOUNT; trust the CAs in this `file` (PEM)")
	flags.StringVar(&f.toTLS.cert, "to-cert", "", "`file` (PEM) of a certificate of this machine for that")
	flags.StringVar(&f.toTLS.key, "to-key", "", "`file` (PEM) of its key")
	flags.StringVar(&f.mount, "mount-listen", "", "`address` for MOUNT over TCP")
	flags.StringVar(&f.status, "status", "", statusFlag)
	flags.Var(number[int]{&f.backward, 0, maxCredits, 0}, "backward", "pass on `N` calls of the server at a time to each RDMA client (NFSv4.1 back channel); 0: none")
	f.limits.add(cmd)
	if a.card == nil {
		addCRCFlag(cmd, &f.crc, "as each client asks, and ask the server for it")
	}
	flags.StringVar(&f.portFile, "port-file", "", "write the addresses to this `file` when ready, as NAME=value lines")
	flags.BoolVar(&a.json, "json", false, "print the addresses as JSON")
	return cmd
}

// addresses takes the sockets of systemd, and fills in the defaults.
func (f *proxyFlags) addresses(a *app, u *nfsclient.URL) (err error) {
	if f.sockets, err = a.inherit(map[string]*string{"listen": &f.listen, "mount-listen": &f.mount, "status": &f.status}); err != nil {
		return err
	}
	if u.Scheme == nfsclient.SchemeRDMA { // the clients come over TCP
		f.sockets.card = nil
	}
	if f.listen == "" && f.sockets.card != nil {
		return usagef("--listen: give an address of an RDMA device, for example --listen 192.0.2.5:20049 (rdma link, ip address)")
	}
	if f.listen == "" {
		f.listen = "127.0.0.1:20049"
		if u.Scheme == nfsclient.SchemeRDMA {
			f.listen = "127.0.0.1:2049"
		}
	}
	if f.mount != "" && u.MountPort == 0 {
		return usagef("--mount-listen needs the port of MOUNT at the server: use --to %s?mountport=N", f.to)
	}
	return nil
}

// server parses --to, whose path is not needed.
func (f *proxyFlags) server() (*nfsclient.URL, error) {
	if f.to == "" {
		return nil, usagef("proxy needs --to URL: see proxy --help")
	}
	to := f.to
	if u, err := url.Parse(to); err == nil && u.Path == "" && u.Host != "" {
		u.Path = "/"
		to = u.String()
	}
	u, err := nfsclient.ParseURL(to)
	if err == nil && u.Scheme == nfsclient.SchemeRDMA && u.TLS != (f.toTLS.ca != "") {
		return nil, usagef("--to nfs+rdma+tls://HOST and --to-ca: give both or neither")
	}
	if err == nil && f.backward != 0 && u.Scheme == nfsclient.SchemeRDMA {
		return nil, usagef("--backward is for RDMA clients: use it with --to nfs://HOST")
	}
	return u, err
}

// config returns the configuration of the transport.
func (f *proxyFlags) config(a *app) (*transport.Config, error) {
	var below *zap.Logger
	var err error
	if f.log, below, err = a.serverLog(); err != nil {
		return nil, err
	}
	cfg := &transport.Config{Logger: below, Backward: transport.Backward{Credits: f.backward}, Startup: transport.Startup{CRC: f.crc}}
	if err := f.limits.apply(cfg, a.card); err != nil {
		return nil, err
	}
	if f.front, err = f.tls.server(); err != nil {
		return nil, err
	}
	if f.front != nil {
		f.front.all = true
	}
	switch {
	case f.toTLS.ca != "":
		f.back = &serverTLS{files: f.toTLS}
	case f.toTLS.cert != "" || f.toTLS.key != "":
		return nil, usagef("--to-cert and --to-key need --to-ca")
	}
	if err := f.readTLS(); err != nil {
		return nil, err
	}
	return cfg, cfg.Check()
}

// readTLS reads the files of TLS. If it returns an error, all stays as it was.
func (f *proxyFlags) readTLS() error {
	if err := f.back.load(); err != nil {
		return err
	}
	return f.front.load()
}

// proxying is a proxy that runs.
type proxying struct {
	a       *app
	f       *proxyFlags
	cfg     *transport.Config
	u       *nfsclient.URL
	p, m    *proxy.Proxy // of NFS, and of MOUNT, which may be nil
	listen  net.Listener // nil: not yet
	mount   net.Listener // nil: none
	r       proxyJSON
	alive   *health // of the server
	owners  owners
	status  *statusServer
	errs    chan error
	started time.Time
	cancel  context.CancelFunc
	wg      sync.WaitGroup
}

// proxy passes clients on until it is interrupted.
func (a *app) proxy(ctx context.Context, f *proxyFlags) error {
	u, err := f.server()
	if err != nil {
		return err
	}
	cfg, err := f.config(a)
	if err != nil {
		return err
	}
	if err := f.addresses(a, u); err != nil {
		return err
	}
	limitMemory(cfg)
	x := &proxying{a: a, f: f, cfg: cfg, u: u, errs: make(chan error, 4), started: time.Now()}
	defer x.close()
	if err := x.open(ctx); err != nil {
		return err
	}
	err = a.untilInterrupt(ctx, f.log, x.reload(), x.errs, func() (string, error) { return "passing on to " + u.Addr(), x.announce(ctx) })
	if err != nil {
		return err
	}
	return x.drain()
}

// open opens the listeners and serves them.
func (x *proxying) open(ctx context.Context) (err error) {
	f, a := x.f, x.a
	x.owners.log, x.cfg.Duplicates.Owner = f.log, x.owners.name
	cfg := *x.cfg
	cfg.TLS = f.front.config()
	x.p = &proxy.Proxy{Config: &cfg, Check: x.owners.check, Dial: a.dialer(x.u.Addr(), x.u.Scheme, x.cfg, x.toTLS)}
	// What is open when an error comes, close closes.
	if x.listen, err = f.sockets.listen(ctx, "listen", f.listen); err != nil {
		return err
	}
	front, err := x.owners.listen(x.listen)
	if err != nil {
		return err
	}
	front = a.capture.Load().TapListener(front)
	x.r = proxyJSON{To: x.u.Addr(), Export: x.u.Path, Listen: front.Addr().String(), Scheme: frontScheme(x.u.Scheme), PID: os.Getpid()}
	if x.mount, err = f.sockets.listen(ctx, "mount-listen", f.mount); err != nil {
		return err
	}
	ml := x.mount
	if ml != nil {
		mounts := mountConfig(x.cfg)
		x.m = &proxy.Proxy{Config: mounts, Check: x.owners.check, Dial: a.dialer(x.u.MountAddr(), nfsclient.SchemeTCP, mounts, inClear)}
		x.r.Mount = ml.Addr().String()
		if ml, err = x.owners.listen(ml); err != nil {
			return err
		}
	}
	sl, err := f.sockets.listen(ctx, "status", f.status)
	if err != nil {
		return err
	}
	x.r.Status = addrOf(sl)
	x.r.web, sl = f.front.web(sl)
	x.alive = newHealth(string(x.u.Scheme)+"://"+x.u.Addr(), f.log, x.check)
	x.status = serveStatus(sl, nil, x.statusServer(), x.stats, x.errs)
	serve := x.p.Serve
	if x.u.Scheme == nfsclient.SchemeRDMA {
		serve = x.p.ServeStream
	}
	x.wg.Go(func() { x.errs <- serve(front) })
	if ml != nil {
		x.wg.Go(func() { x.errs <- x.m.ServeStream(ml) })
	}
	return nil
}

// reload returns what SIGHUP does: the files of TLS are read again, and sessions that the CAs no longer cover end. It is nil
// if there are none.
func (x *proxying) reload() func() (string, error) {
	if x.f.front == nil && x.f.back == nil {
		return nil
	}
	return func() (string, error) {
		if err := x.f.readTLS(); err != nil {
			return "", err
		}
		return x.u.Addr(), x.p.RecheckTLS()
	}
}

// toTLS is the TLS of connections to the server.
func (x *proxying) toTLS() transport.TLS {
	if x.f.back == nil {
		return transport.TLS{}
	}
	c := x.f.back.now.Load().Clone()
	c.ServerName = x.u.Host
	return transport.TLS{Config: c}
}

func inClear() transport.TLS { return transport.TLS{} }

// announce checks the server for the first time, and says what the proxy does.
func (x *proxying) announce(ctx context.Context) error {
	line := []any{"clients", x.r.Scheme + "://" + x.r.Listen, "server", x.alive.what, "version", cliout.Version()}
	for _, l := range [][2]string{{"mount", x.r.Mount}, {"status", x.r.Status}} {
		if l[1] != "" {
			line = append(line, l[0], l[1])
		}
	}
	x.f.log.Info("passing on", line...)
	ctx, x.cancel = context.WithCancel(ctx)
	x.wg.Go(func() { x.alive.watch(ctx) })
	<-x.alive.first
	if _, err := x.alive.lost(); err != nil {
		x.r.Lost = err.Error()
	}
	return x.a.announceProxy(&x.r, x.f.portFile)
}

// check asks the server whether it serves NFS.
func (x *proxying) check(ctx context.Context) error {
	c, err := x.p.Dial(ctx, nil)
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // nothing is awaited
	var reply rpc.Reply
	defer reply.Release()
	if err := c.Do(ctx, &rpc.Call{Prog: nfs3.Program, Vers: nfs3.Version}, &reply); err != nil {
		return err
	}
	if h := &reply.Header; !h.Denied && h.Accept == xdr.ProgUnavail {
		return fmt.Errorf("there is an RPC server, but it does not serve NFS: %w", h.Err())
	}
	return nil
}

// stats are the counters of the front.
func (x *proxying) stats() rpc.Stats { return x.p.Stats().Stats }

// Clients are connected for MOUNT as long as a call takes. One address may have fewer than all, even if it is this machine's.
const (
	mountConns       = 256
	mountClientConns = 32
)

// mountConfig is that of the port of MOUNT, which nobody calls back.
func mountConfig(cfg *transport.Config) *transport.Config {
	c := *cfg
	c.Backward = transport.Backward{}
	if c.Limits.Conns == 0 || c.Limits.Conns > mountConns {
		c.Limits.Conns = mountConns
	}
	if n := &c.Limits.PerClient.Conns; *n == 0 || *n > mountClientConns {
		*n = mountClientConns
	}
	return &c
}

// drain waits for the calls in progress, and ends. It is an error if some are aborted.
func (x *proxying) drain() error {
	x.status.stopping()
	ctx, cancel := context.WithTimeout(x.a.hard, drainTime)
	defer cancel()
	_ = x.p.Shutdown(ctx) // what is left says more
	st := x.p.Stats()
	printStats(x.a.stderr, "nfsdemo: passed", st.Stats)
	fmt.Fprintf(x.a.stderr, "nfsdemo: stopped; %d clients, %d of them without an answer from %s\n", st.Accepted, st.Failed, x.r.To)
	if left := st.InFlight; left > 0 {
		return &drainError{fmt.Errorf("%s had not answered %s", x.r.To, plural(left, "call"))}
	}
	return nil
}

// close ends everything.
func (x *proxying) close() {
	if x.cancel != nil {
		x.cancel()
	}
	for _, p := range []*proxy.Proxy{x.p, x.m} {
		if p != nil {
			_ = p.Close() // always nil
		}
	}
	_ = closed(x.listen, x.mount)
	_ = x.status.close() // nobody is told more
	x.f.sockets.close()
	x.wg.Wait()
	_ = x.owners.close() // always nil
}

// dialer connects to the server, one client at a time.
func (a *app) dialer(addr string, scheme nfsclient.Scheme, cfg *transport.Config, secure func() transport.TLS) func(context.Context, rpc.Handler) (proxy.Server, error) {
	return func(ctx context.Context, back rpc.Handler) (proxy.Server, error) {
		own := *cfg
		own.TLS = secure()
		if own.Backward.Handler = back; back == nil {
			own.Backward.Credits = 0
		} else if own.Backward.Credits == 0 {
			own.Backward.Handler = nil
		}
		dial := a.dialRDMA()
		if dial == nil || scheme == nfsclient.SchemeTCP {
			dial = dialTCP
		}
		c, err := dial(ctx, addr)
		if err != nil {
			return nil, err
		}
		c = a.capture.Load().TapClient(c)
		if scheme == nfsclient.SchemeTCP {
			return transport.NewStreamClient(ctx, c, &own)
		}
		cl, err := transport.NewClient(ctx, c, &own)
		if err != nil {
			_ = c.Close() // the first error counts
		}
		return cl, err
	}
}

func dialTCP(ctx context.Context, addr string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", addr)
}

// proxyJSON is the output of proxy --json.
type proxyJSON struct {
	Scheme string `json:"scheme"` // of the clients
	Listen string `json:"listen"`
	Mount  string `json:"mount,omitempty"`
	Status string `json:"status,omitempty"`
	To     string `json:"to"`
	Lost   string `json:"lost,omitempty"` // why the server cannot be reached at the start
	Export string `json:"export"`         // path in the URL of the server
	PID    int    `json:"pid"`
	web    string // the scheme of Status
}

// frontScheme returns the URL scheme by which clients reach the proxy of a server.
func frontScheme(s nfsclient.Scheme) string {
	if s == nfsclient.SchemeRDMA {
		return string(nfsclient.SchemeTCP)
	}
	return string(nfsclient.SchemeRDMA)
}

// announceProxy prints where the proxy listens, and for which server.
func (a *app) announceProxy(r *proxyJSON, portFile string) error {
	if portFile != "" {
		ports := readyJSON{Export: r.Export, RDMA: r.Listen, Mount: r.Mount, Status: r.Status, PID: r.PID}
		if r.Scheme == string(nfsclient.SchemeTCP) {
			ports.RDMA, ports.TCP = "", r.Listen
		}
		if err := writePortFile(portFile, &ports); err != nil {
			return err
		}
	}
	if a.json {
		return a.printJSON(r)
	}
	_, err := fmt.Fprintf(a.stdout, "passing %s://%s on to %s\n", r.Scheme, r.Listen, r.To)
	if r.Mount != "" {
		fmt.Fprintf(a.stdout, "  MOUNT     %s\n", r.Mount)
	}
	if r.Status != "" {
		fmt.Fprintf(a.stdout, "  status    %s  %s://%s/status\n", r.Status, r.web, reachable(r.Status))
	}
	if r.Lost != "" {
		fmt.Fprintf(a.stdout, "  the server cannot be reached yet (%s); until it is, NFSv3 clients are asked to wait\n", r.Lost)
	}
	return err
}
