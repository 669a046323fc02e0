package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/transport"
)

// drainTime limits the wait for calls that are being served at an interrupt.
const drainTime = 10 * time.Second

// serveFlags are the flags of serve.
type serveFlags struct {
	service  serviceConfig
	exports  exportFlags
	crc      transport.CRCMode
	credits  int
	pool     int // credits of all connections together; 0: no limit
	portFile string
	profile  profile
	limits   limitFlags
	tls      tlsFiles
	keytab   string
}

// serveCmd is the command serve.
func (a *app) serveCmd() *cobra.Command {
	f := &serveFlags{}
	cmd := &cobra.Command{
		Use:   "serve --export DIR",
		Short: "Serve a directory over NFS/RDMA",
		Long: `serve exports a directory over NFSv3 on RPC-over-RDMA (software iWARP), and with
--tcp over NFS/TCP too. The path of the export is the absolute path of the directory.
MOUNT is answered on every port.

Interrupt it (Ctrl-C, SIGTERM) to answer the calls that have arrived, and stop; interrupt
it again to stop at once. SIGHUP makes it read its configuration again, and open each
directory anew.

As root, serve lets the kernel decide what each caller may do, as for a local process of
that user; root of a client is nobody, unless no_root_squash. As an ordinary user it
serves every caller as that user.

Without Kerberos (--keytab, and sec=krb5p of an export) there is no authentication: a client
is believed who its callers are. On this machine the kernel knows better: only root can claim
other ids than its own. Calls over NFS/TCP need a
port below 1024, unless insecure or from this machine; over NFS/RDMA no client has one, so
whoever can reach that port can act as any user but root. Listen on other than loopback
addresses only in networks that you trust, and with --allow: a client that it does not
name is refused during the start-up of its connection. What one client address may use is
limited, so that the others can still be served.

With --push-log, clients may append to logs in that directory, durably and in one round
trip. A log belongs to whoever has its secret; nfsdemo log shows it. Its records stay until
they are released; the server drops none.`,
		Example: `  nfsdemo serve --export /srv/data
  nfsdemo serve --export . --read-only --tcp 127.0.0.1:2049
  nfsdemo serve --export /srv/data,ro --export /srv/in,client=192.0.2.0/24
  nfsdemo serve --config /etc/nfsdemo.toml
  nfsdemo serve --export /srv/data,sec=krb5p:krb5i --keytab /etc/krb5.keytab
  nfsdemo serve --exports /etc/exports
  nfsdemo serve --memory --export /scratch --listen 127.0.0.1:0
  nfsdemo serve --export . --listen 192.0.2.5:20049 --allow 192.0.2.0/24 --allow 127.0.0.1
  nfsdemo serve --export /srv/data --push-log /var/lib/stag --status 127.0.0.1:9049
  nfsdemo serve --export /srv/data --replies 127.0.0.1:0
  nfsdemo serve --export . --pcap trace.pcapng`,
		Args: nArgs(0, 0, "no arguments, only flags"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context(), f) },
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.exports.dirs, "export", nil, "`directory` to serve, perhaps with options as in exports(5): DIR,ro,client=192.0.2.0/24,mountpoint; can be repeated; with --memory, the name of the export")
	flags.BoolVar(&f.service.memory, "memory", false, "serve an empty file system in memory")
	flags.StringVar(&f.service.state, "state", "", "`directory` of the key that seals handles, so that they outlive the server; \"\": $STATE_DIRECTORY, or nfsdemo in $XDG_STATE_HOME, /var/lib (root) or ~/.local/state")
	f.service.push.add(cmd)
	a.addServeFlags(cmd, f)
	return cmd
}

// addServeFlags adds the flags of all servers.
func (a *app) addServeFlags(cmd *cobra.Command, f *serveFlags) {
	cmd.PersistentPreRunE = func(*cobra.Command, []string) error { return nil } // config starts the capture, if it may
	flags := cmd.Flags()
	flags.StringVar(&f.exports.file, "config", "", "`file` (TOML) with more exports; SIGHUP reads it again")
	flags.StringVar(&f.exports.etc, "exports", "", "`file` with more exports, written as /etc/exports; SIGHUP reads it again")
	flags.StringVar(&f.service.rdma, "listen", "127.0.0.1:20049", "`address` for NFS/RDMA; port 0: any free one")
	flags.StringVar(&f.service.mount, "mount-listen", "127.0.0.1:20048", `address for MOUNT over TCP; "" for none`)
	flags.StringVar(&f.service.tcp, "tcp", "", "`address` for NFS/TCP")
	f.tls.serverFlags(cmd, "clients may use TLS (RFC 9289, nfs+rdma+tls://), exports may want it (xprtsec=tls:mtls), and --status is HTTPS")
	flags.StringVar(&f.keytab, "keytab", "", "`file` with the Kerberos keys of nfs/NAME: exports may want to know users by Kerberos (sec=krb5:krb5i:krb5p:sys); SIGHUP reads it again")
	flags.BoolVar(&f.exports.readOnly, "read-only", false, "refuse every change in exports that do not say rw")
	flags.StringVar(&f.exports.squash, "squash", "root", "which user ids to map to nobody in exports that do not say: none, root or all")
	flags.BoolVar(&f.service.manageGIDs, "manage-gids", false, "the groups of a uid are those that it has on this machine, as mountd(8) --manage-gids: AUTH_SYS names at most sixteen; the gid of a call counts as sent")
	flags.IntVar(&f.credits, "credits", 0, "calls in flight per connection; 0: the default")
	addPoolFlag(cmd, &f.pool)
	flags.BoolVar(&f.service.register, "register", false, "register NFS, MOUNT and quotas with this machine's rpcbind; MOUNT is then answered over UDP too, to clients that an export or --allow names")
	flags.StringVar(&f.service.locks, "locks", locksAuto, "serve locks (NLM, over TCP and UDP): on, off, or auto: if --register works and nobody else serves them")
	addCRCFlag(cmd, &f.crc, "as each client asks")
	addProfileFlag(cmd, &f.profile)
	f.limits.add(cmd)
	flags.StringVar(&f.service.status, "status", "", statusFlag)
	flags.StringVar(&f.service.control, "control", "", "`path` of the Unix socket for nfsdemo exports; \"\": control in --state")
	flags.StringVar(&f.service.replies, "replies", "", "push replies into the logs of clients that ask for it, over connections to this `address`; port 0: any free one")
	flags.StringVar(&f.portFile, "port-file", "", "write the addresses to this `file` when ready, as NAME=value lines")
	flags.BoolVar(&a.json, "json", false, "print the export and the addresses as JSON")
}

// config turns the flags into a service's configuration.
func (f *serveFlags) config(a *app) (*serviceConfig, error) {
	cfg := f.service
	var err error
	flags := map[string]*string{
		"listen": &cfg.rdma, "mount-listen": &cfg.mount, "tcp": &cfg.tcp,
		"status": &cfg.status, "push-listen": &cfg.push.listen, "replies": &cfg.replies,
	}
	if cfg.sockets, err = inheritSockets(slices.Collect(maps.Keys(flags))...); err != nil {
		return nil, err
	}
	cfg.sockets.name(flags)
	if f.keytab != "" {
		cfg.kerberos = &kerberos{file: f.keytab, said: &f.exports.users}
	}
	if cfg.exports, err = f.exports.read(); err != nil {
		return nil, err
	}
	if f.exports.file != "" || f.exports.etc != "" || !cfg.memory && a.storage == nil { // what stands at a path can change without a file
		cfg.again = f.exports.read
	}
	if cfg.tls, err = f.tls.server(); err != nil {
		return nil, err
	}
	if cfg.rdma == "" && cfg.tcp == "" {
		return nil, usagef("--listen and --tcp are both empty: give at least one an address")
	}
	if err := cfg.checkLocks(); err != nil {
		return nil, err
	}
	if err := cfg.checkReplies(); err != nil {
		return nil, err
	}
	for flag, addr := range map[string]string{"listen": cfg.rdma, "mount-listen": cfg.mount, "tcp": cfg.tcp, "status": cfg.status} {
		if _, _, err := net.SplitHostPort(addr); addr != "" && err != nil {
			return nil, usagef("--%s %q is not an address: write host:port, for example 127.0.0.1:20049", flag, addr)
		}
	}
	if cfg.log, err = a.serverLog(); err != nil {
		return nil, err
	}
	if err := inRange("credits", f.credits, 1, maxCredits); err != nil {
		return nil, err
	}
	cfg.config = &transport.Config{Logger: cfg.log.zap, Credits: f.credits, RFC5666: f.profile.settings(), Startup: transport.Startup{CRC: f.crc}}
	if cfg.config.CreditPool, err = creditPool(f.pool); err != nil {
		return nil, err
	}
	if err := f.limits.apply(cfg.config); err != nil {
		return nil, err
	}
	if err := cfg.config.Check(); err != nil {
		return nil, err
	}
	if cfg.pcap = a.pcap; !cfg.memory && a.storage == nil {
		if err := cfg.checkPlaces(cfg.exports, soon); err != nil {
			return nil, err
		}
	}
	if err := cfg.push.check(&cfg); err != nil { // makes the directory
		return nil, err
	}
	if err := a.startCapture(); err != nil {
		return nil, err
	}
	cfg.capture = a.capture.Load()
	return &cfg, nil
}

// serve serves until it is interrupted.
func (a *app) serve(ctx context.Context, f *serveFlags) error {
	cfg, err := f.config(a)
	if err != nil {
		return err
	}
	if !cfg.memory {
		spareProcs()
	}
	return a.serveUntil(ctx, cfg, f)
}

// serveUntil serves until ctx ends.
func (a *app) serveUntil(ctx context.Context, cfg *serviceConfig, f *serveFlags) error {
	s, err := newService(ctx, cfg)
	if err != nil {
		return err
	}
	a.serving.Store(true)
	hup, stop := hangups()
	defer stop()
	if err := a.announce(s, f); err != nil {
		return errors.Join(err, s.stop(a.hard))
	}
	ready("serving " + s.paths())
	for {
		select {
		case <-ctx.Done():
			stopping()
			return a.drain(s)
		case <-hup:
			s.log.reload(s.reload)
		case err := <-s.errs:
			return errors.Join(err, s.stop(a.hard))
		}
	}
}

// drain stops the service after an interrupt. That is the normal end of serve, so it is no error
// unless calls were aborted.
func (a *app) drain(s *service) error {
	fmt.Fprintln(a.stderr, a.name()+": stopping; interrupt again to stop at once")
	ctx, cancel := context.WithTimeout(a.hard, drainTime)
	defer cancel()
	err := s.stop(ctx)
	printStats(a.stderr, a.name()+": served", s.srv.Stats())
	if err != nil {
		return &drainError{err}
	}
	return nil
}

// drainError reports that calls had to be aborted.
type drainError struct{ err error }

func (e *drainError) Error() string { return "calls were aborted: " + e.err.Error() }
func (e *drainError) Unwrap() error { return e.err }
