package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/nfsdemo/proxy"
	"github.com/stag-rdma/stag/transport"
)

// proxyFlags are the flags of proxy.
type proxyFlags struct {
	listen, mount string // addresses
	to            string // URL of the server
	portFile      string
	crc           transport.CRCMode
	credits       int
	backward      int // calls of the server in flight to one client; 0: passes none on
	pool          int // credits of all RDMA clients together; 0: no limit
	limits        limitFlags
	log           *serverLog
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
address, and use --allow to say who may use the proxy. The other limits apply to RDMA
clients. Interrupt it (Ctrl-C) to stop.`,
		Example: `  nfsdemo proxy --to nfs://127.0.0.1:2049
  nfsdemo proxy --to 'nfs://fileserver?mountport=20048' --mount-listen 127.0.0.1:20048
  nfsdemo proxy --to nfs+rdma://127.0.0.1:20049 --listen 127.0.0.1:2049
  nfsdemo proxy --to nfs://127.0.0.1:2049 --backward 16
  nfsdemo proxy --to nfs://127.0.0.1:2049 --listen :20049 --allow 192.0.2.0/24`,
		Args: nArgs(0, 0, "no arguments, only flags"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.proxy(cmd.Context(), f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.to, "to", "", "`URL` of the server, nfs://HOST[:PORT] or nfs+rdma://HOST[:PORT]")
	flags.StringVar(&f.listen, "listen", "", "`address` for clients (default 127.0.0.1:20049, or 127.0.0.1:2049 with --to nfs+rdma://)")
	flags.StringVar(&f.mount, "mount-listen", "", "`address` for MOUNT over TCP")
	flags.IntVar(&f.credits, "credits", 0, "calls in flight per connection; 0: the default")
	flags.IntVar(&f.backward, "backward", 0, "pass on `N` calls of the server at a time to each RDMA client (NFSv4.1 back channel); 0: none")
	addPoolFlag(cmd, &f.pool)
	f.limits.add(cmd)
	addCRCFlag(cmd, &f.crc, "as each client asks, and ask the server for it")
	flags.StringVar(&f.portFile, "port-file", "", "write the addresses to this `file` when ready, as NAME=value lines")
	flags.BoolVar(&a.json, "json", false, "print the addresses as JSON")
	return cmd
}

// server parses --to, whose path is not needed.
func (f *proxyFlags) server() (*nfsclient.URL, error) {
	if f.to == "" {
		return nil, usagef("proxy needs --to URL: see nfsdemo proxy --help")
	}
	to := f.to
	if u, err := url.Parse(to); err == nil && u.Path == "" && u.Host != "" {
		u.Path = "/"
		to = u.String()
	}
	u, err := nfsclient.ParseURL(to)
	if err == nil && f.backward != 0 && u.Scheme == nfsclient.SchemeRDMA {
		return nil, usagef("--backward is for RDMA clients: use it with --to nfs://HOST")
	}
	if err == nil && f.mount != "" && u.MountPort == 0 {
		return nil, usagef("--mount-listen needs the port of MOUNT at the server: use --to %s?mountport=N", f.to)
	}
	return u, err
}

// config returns the configuration of the transport.
func (f *proxyFlags) config(a *app) (*transport.Config, error) {
	var err error
	if f.log, err = a.serverLog(); err != nil {
		return nil, err
	}
	if err := inRange("credits", f.credits, 1, maxCredits); err != nil {
		return nil, err
	}
	if err := inRange("backward", f.backward, 1, maxCredits); err != nil {
		return nil, err
	}
	cfg := &transport.Config{Logger: f.log.zap, Credits: f.credits, BackwardCredits: f.backward, CRC: f.crc}
	if err := f.limits.apply(cfg); err != nil {
		return nil, err
	}
	if cfg.CreditPool, err = creditPool(f.pool); err != nil {
		return nil, err
	}
	return cfg, cfg.Check()
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
	p := &proxy.Proxy{Logger: cfg.Logger, Dial: a.dialer(u.Addr(), u.Scheme, cfg)}
	defer p.Close() //nolint:errcheck // always nil
	l, err := a.proxyListener(f.listen, u.Scheme, cfg)
	if err != nil {
		return err
	}
	errs := make(chan error, 2)
	go func() { errs <- p.Serve(l) }()
	r := proxyJSON{To: u.Addr(), Export: u.Path, Listen: l.Addr().String(), Scheme: frontScheme(u.Scheme), PID: os.Getpid()}
	if f.mount != "" {
		m := &proxy.Proxy{Logger: cfg.Logger, Dial: a.dialer(u.MountAddr(), nfsclient.SchemeTCP, cfg)}
		defer m.Close() //nolint:errcheck // always nil
		ml, err := listenTCP(f.mount)
		if err != nil {
			return err
		}
		go func() { errs <- m.Serve(allowed(ml, cfg.Allow)) }()
		r.Mount = ml.Addr().String()
	}
	a.serving.Store(true)
	f.log.Info("passing on", "clients", r.Scheme+"://"+r.Listen, "server", r.To, "mount", r.Mount, "version", version())
	if err := a.announceProxy(&r, f.portFile); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		if rdma, ok := l.(*transport.Listener); ok {
			printStats(a.stderr, "nfsdemo: passed", rdma.Stats())
		}
		st := p.Stats()
		fmt.Fprintf(a.stderr, "nfsdemo: stopped; %d clients, %d of them without an answer from %s\n", st.Accepted, st.Failed, r.To)
		return nil
	case err := <-errs:
		return err
	}
}

// dialer connects to the server, one client at a time.
func (a *app) dialer(addr string, scheme nfsclient.Scheme, cfg *transport.Config) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		c = a.capture.Load().TapClient(c)
		if scheme == nfsclient.SchemeTCP {
			return c, nil
		}
		cl, err := transport.NewClient(ctx, c, cfg)
		if err != nil {
			_ = c.Close() // the first error counts
			return nil, err
		}
		return transport.NewCallConn(cl), nil
	}
}

// proxyListener listens for clients of the other transport.
func (a *app) proxyListener(addr string, server nfsclient.Scheme, cfg *transport.Config) (net.Listener, error) {
	if addr == "" {
		addr = "127.0.0.1:20049"
		if server == nfsclient.SchemeRDMA {
			addr = "127.0.0.1:2049"
		}
	}
	l, err := listenTCP(addr)
	if err != nil {
		return nil, err
	}
	l = a.capture.Load().TapListener(l)
	if server == nfsclient.SchemeRDMA {
		return allowed(l, cfg.Allow), nil
	}
	return transport.NewListener(l, cfg)
}

// listenTCP listens on an address.
func listenTCP(addr string) (net.Listener, error) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, usagef("%q is not an address: write host:port, for example 127.0.0.1:20049", addr)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, &transport.OpError{Op: transport.OpListen, Addr: addr, Err: bareListen(err)}
	}
	return l, nil
}

// proxyJSON is the output of proxy --json.
type proxyJSON struct {
	Scheme string `json:"scheme"` // of the clients
	Listen string `json:"listen"`
	Mount  string `json:"mount,omitempty"`
	To     string `json:"to"`
	Export string `json:"export"` // path in the URL of the server
	PID    int    `json:"pid"`
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
		ports := readyJSON{Export: r.Export, RDMA: r.Listen, Mount: r.Mount, PID: r.PID}
		if r.Scheme == string(nfsclient.SchemeTCP) {
			ports.RDMA, ports.TCP = "", r.Listen
		}
		if err := writePortFile(portFile, &ports); err != nil {
			return err
		}
	}
	if a.json {
		return json.NewEncoder(a.stdout).Encode(r)
	}
	_, err := fmt.Fprintf(a.stdout, "passing %s://%s on to %s\n", r.Scheme, r.Listen, r.To)
	if r.Mount != "" {
		fmt.Fprintf(a.stdout, "  MOUNT     %s\n", r.Mount)
	}
	return err
}
