package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/internal/cliout"
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/dir"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

// drainTime limits the wait for calls that are being served at an interrupt.
const drainTime = 10 * time.Second

// serveFlags are the flags of serve.
type serveFlags struct {
	service  serviceConfig
	exports  exportFlags
	crc      transport.CRCMode
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
	if a.card == nil {
		f.service.push.add(cmd)
	}
	a.addServeFlags(cmd, f)
	return cmd
}

// addServeFlags adds the flags of all servers.
func (a *app) addServeFlags(cmd *cobra.Command, f *serveFlags) {
	cmd.PersistentPreRunE = func(*cobra.Command, []string) error { return nil } // config starts the capture, if it may
	flags := cmd.Flags()
	flags.StringVar(&f.exports.file, "config", "", "`file` (TOML) with more exports; SIGHUP reads it again")
	flags.StringVar(&f.exports.etc, "exports", "", "`file` with more exports, written as /etc/exports; SIGHUP reads it again")
	if a.card != nil {
		flags.StringVar(&f.service.rdma, "listen", "", "`address` of an RDMA device for NFS/RDMA, for example 192.0.2.5:20049; :20049: all of them")
	} else {
		flags.StringVar(&f.service.rdma, "listen", "127.0.0.1:20049", "`address` for NFS/RDMA; port 0: any free one")
		addCRCFlag(cmd, &f.crc, "as each client asks")
		flags.StringVar(&f.service.replies, "replies", "", "push replies into the logs of clients that ask for it, over connections to this `address`; port 0: any free one")
	}
	flags.StringVar(&f.service.mount, "mount-listen", "127.0.0.1:20048", `address for MOUNT over TCP; "" for none`)
	flags.StringVar(&f.service.tcp, "tcp", "", "`address` for NFS/TCP")
	f.tls.serverFlags(cmd, "clients may use TLS (RFC 9289, nfs+rdma+tls://), exports may want it (xprtsec=tls:mtls), and --status is HTTPS")
	flags.StringVar(&f.keytab, "keytab", "", "`file` with the Kerberos keys of nfs/NAME: exports may want to know users by Kerberos (sec=krb5:krb5i:krb5p:sys); SIGHUP reads it again")
	flags.BoolVar(&f.exports.readOnly, "read-only", false, "refuse every change in exports that do not say rw")
	flags.StringVar(&f.exports.squash, "squash", "root", "which user ids to map to nobody in exports that do not say: none, root or all")
	flags.BoolVar(&f.service.manageGIDs, "manage-gids", false, "the groups of a uid are those that it has on this machine, as mountd(8) --manage-gids: AUTH_SYS names at most sixteen; the gid of a call counts as sent")
	flags.BoolVar(&f.service.register, "register", false, "register NFS, MOUNT and quotas with this machine's rpcbind; MOUNT is then answered over UDP too, to clients that an export or --allow names")
	flags.StringVar(&f.service.locks, "locks", locksAuto, "serve locks (NLM, over TCP and UDP): on, off, or auto: if --register works and nobody else serves them")
	addProfileFlag(cmd, &f.profile)
	f.limits.add(cmd)
	flags.StringVar(&f.service.status, "status", "", statusFlag)
	flags.StringVar(&f.service.control, "control", "", "`path` of the Unix socket for nfsdemo exports; \"\": control in --state")
	flags.StringVar(&f.portFile, "port-file", "", "write the addresses to this `file` when ready, as NAME=value lines")
	flags.BoolVar(&a.json, "json", false, "print the export and the addresses as JSON")
}

// config turns the flags into a service's configuration.
func (f *serveFlags) config(a *app) (*serviceConfig, error) {
	cfg := f.service
	var err error
	if cfg.sockets, err = a.inherit(map[string]*string{
		"listen": &cfg.rdma, "mount-listen": &cfg.mount, "tcp": &cfg.tcp,
		"status": &cfg.status, "push-listen": &cfg.push.listen, "replies": &cfg.replies,
	}); err != nil {
		return nil, err
	}
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
	if cfg.replies != "" && cfg.rdma == "" {
		return nil, usagef("--replies needs --listen ADDRESS: replies are pushed by RDMA")
	}
	var below *zap.Logger
	if cfg.log, below, err = a.serverLog(); err != nil {
		return nil, err
	}
	cfg.config = &transport.Config{Logger: below, RFC5666: f.profile.settings(), Startup: transport.Startup{CRC: f.crc}}
	if err := f.limits.apply(cfg.config, a.card); err != nil {
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
	err = a.untilInterrupt(ctx, s.log, s.reload, s.errs, func() (string, error) { return "serving " + s.paths(), a.announce(s, f) })
	if err != nil {
		return errors.Join(err, s.stop(a.hard))
	}
	// An interrupt is the normal end of serve: no error, unless calls are aborted.
	ctx, cancel := context.WithTimeout(a.hard, drainTime)
	defer cancel()
	err = s.stop(ctx)
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

// readyJSON is the output of serve --json. The port file has the same content in another form.
type readyJSON struct {
	Export  string       `json:"export"` // the first one
	RDMA    string       `json:"rdma,omitempty"`
	Mount   string       `json:"mount,omitempty"`
	TCP     string       `json:"tcp,omitempty"`
	Push    string       `json:"push,omitempty"`    // for commit connections
	Reply   string       `json:"replies,omitempty"` // for the connections of reply logs
	Status  string       `json:"status,omitempty"`  // HTTP
	PID     int          `json:"pid"`
	Locks   string       `json:"locks,omitempty"` // "on", or "off" and why
	Exports []exportJSON `json:"exports"`
	Line    string       `json:"line,omitempty"` // mount command
}

// exportJSON describes an export.
type exportJSON struct {
	Path string `json:"path"`
	Mode string `json:"mode"`
}

// authority says who decides in a file system; "" if there is nothing to say.
func authority(fsys backend.FS) string {
	if d, ok := fsys.(*dir.FS); ok {
		return d.Authority()
	}
	return ""
}

// announce prints where the service is, and how to mount it.
func (a *app) announce(s *service, f *serveFlags) error {
	r, list := s.where(), s.set.exports()
	r.PID, r.Locks = os.Getpid(), s.locks.String()
	r.Line = mountLine(r, &list[0])
	if f.portFile != "" {
		if err := writePortFile(f.portFile, r); err != nil {
			return err
		}
	}
	for i := range list {
		r.Exports = append(r.Exports, exportJSON{list[i].Path, modeOf(&list[i])})
	}
	if few := descriptorsWarning(); few != "" {
		s.log.Warn("descriptors", "limit", few)
	}
	if f.limits.why != "" {
		s.log.Info("memory", "limit", f.limits.why)
	}
	if why := s.locks.missing(); why != "" {
		s.log.Warn("locks are off", "why", why)
	}
	line := []any{"exports", s.paths(), "version", cliout.Version()}
	for _, at := range r.places() {
		line = append(line, at.name, at.addr)
	}
	s.log.Info("serving", line...)
	if a.json {
		return a.printJSON(r)
	}
	for i := range list {
		if list[i].FS == nil {
			continue
		}
		fmt.Fprintf(a.stdout, "serving %s, %s\n", list[i].Path, modeOf(&list[i]))
		if text := authority(list[i].FS); text != "" {
			fmt.Fprintf(a.stdout, "  %s\n", text)
		}
		for _, says := range s.set.says(list[i].Path) {
			fmt.Fprintf(a.stdout, "  %s\n", says)
		}
	}
	for _, p := range s.set.away() {
		fmt.Fprintf(a.stdout, "not serving %s yet: %s\n", p.Export, p.Error)
	}
	if r.RDMA != "" && slices.ContainsFunc(list, func(e server.Export) bool {
		return believes([]server.Export{e}) && slices.Contains(flavorsOf(&e), xdr.AuthSys)
	}) {
		fmt.Fprintln(a.stdout, "  clients are believed: who reaches NFS/RDMA from another machine may claim any user but root; --allow says who does")
	}
	rdma := "nfs+rdma"
	if xprtSecOf(&list[0])&server.XprtNone == 0 {
		rdma = "nfs+rdma+tls"
	}
	urls := map[string]string{"rdma": rdma + "://" + reachable(r.RDMA) + urlPath(s.path), "tcp": "nfs://" + reachable(r.TCP) + urlPath(s.path), "status": s.web + "://" + reachable(r.Status) + "/status"}
	for _, at := range r.places() {
		fmt.Fprintf(a.stdout, "  %-8s  %s\n", at.people, strings.TrimSpace(at.addr+"  "+urls[at.name]))
	}
	if r.RDMA != "" && a.card == nil {
		fmt.Fprintf(a.stdout, "  CRC32C    %s\n", crcLine(f.crc))
	}
	if few := descriptorsWarning(); few != "" {
		fmt.Fprintf(a.stdout, "  files     %s\n", few)
	}
	if f.limits.why != "" {
		fmt.Fprintf(a.stdout, "  memory    %s\n", f.limits.why)
	}
	if r.Locks != "" {
		fmt.Fprintf(a.stdout, "  locks     %s\n", r.Locks)
	}
	if r.Line != "" {
		first := ""
		if strings.Contains(r.Line, "vers=3,rdma") && a.card == nil {
			first = " (an iWARP device first: rdma link add siw0 type siw netdev eth0)"
		}
		fmt.Fprintf(a.stdout, "from Linux, as root%s:\n  %s\n", first, r.Line)
	}
	return nil
}

// fewDescriptors are less than connections and caches would take.
const fewDescriptors = 4096

// descriptorsWarning says that the process may open few; "" if not.
func descriptorsWarning() string {
	if n := dir.MaxDescriptors(); n < fewDescriptors {
		return fmt.Sprintf("only %d for connections and open files together: raise the limit (LimitNOFILE=, ulimit -Hn)", n)
	}
	return ""
}

// place is where a server listens.
type place struct {
	name   string // in its log and the port file
	people string // in what it prints
	addr   string
}

// where says where a service listens.
func (s *service) where() *readyJSON {
	return &readyJSON{
		Export: s.path, RDMA: addrOf(s.rdma), TCP: addrOf(s.tcp), Mount: addrOf(s.mount),
		Push: addrOf(s.commits), Reply: addrOf(s.replyL), Status: addrOf(s.statusL),
	}
}

// places are those of a server.
func (r *readyJSON) places() []place {
	return slices.DeleteFunc([]place{
		{"rdma", "NFS/RDMA", r.RDMA},
		{"tcp", "NFS/TCP", r.TCP},
		{"mount", "MOUNT", r.Mount},
		{"push", "push", r.Push},
		{"replies", "replies", r.Reply},
		{"status", "status", r.Status},
	}, func(p place) bool { return p.addr == "" })
}

// crcLine says when checksums are used. That the default leaves it to the client is a deviation from
// RFC 5044 Section 4.4, so it is not left unsaid.
func crcLine(m transport.CRCMode) string {
	switch m {
	case transport.CRCOn:
		return "always"
	case transport.CRCOff:
		return "only for clients that ask for it"
	case transport.CRCPeer:
	}
	return "as each client asks: Linux does not, nfsdemo does; --crc on: always"
}

// addrOf returns where a listener listens, "" if there is none.
func addrOf(l net.Listener) string {
	if l == nil {
		return ""
	}
	return l.Addr().String()
}

// xprtSecOf returns how connections may be protected that use an export, for some of its clients at least.
func xprtSecOf(e *server.Export) (all server.XprtSec) {
	of := func(x server.XprtSec) server.XprtSec {
		if x == 0 {
			x = server.XprtNone | server.XprtTLS | server.XprtMTLS
		}
		return x
	}
	if len(e.Clients) == 0 {
		return of(e.XprtSec)
	}
	for _, c := range e.Clients {
		x := of(c.XprtSec)
		if len(c.Certs) > 0 && len(c.Nets)+len(c.Names) == 0 {
			x &= server.XprtMTLS
		}
		all |= x
	}
	return all
}

// mountLine is the command that mounts the export e with the Linux kernel's client, which has TLS only on TCP.
func mountLine(r *readyJSON, e *server.Export) string {
	sec := xprtSecOf(e)
	addr, opts := r.RDMA, "vers=3,rdma"
	if addr == "" || sec&server.XprtNone == 0 {
		addr, opts = r.TCP, "vers=3,proto=tcp"
	}
	switch {
	case sec&server.XprtNone != 0:
	case sec&server.XprtTLS != 0:
		opts += ",xprtsec=tls"
	default:
		opts += ",xprtsec=mtls"
	}
	mount := r.Mount
	if mount == "" {
		mount = r.TCP // which also answers MOUNT
	}
	if addr == "" || mount == "" {
		return ""
	}
	if how := flavorsOf(e); !slices.Contains(how, xdr.AuthSys) {
		opts += ",sec=" + secName(how[:1])
	}
	host, port, _ := net.SplitHostPort(reachable(addr))
	_, mountPort, _ := net.SplitHostPort(mount)
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	opts += ",port=" + port + ",mountport=" + mountPort + ",mountproto=tcp"
	if r.Locks != locksOn {
		opts += ",nolock" // else locks wait for ever
	}
	return fmt.Sprintf("mount -t nfs -o %s %s /mnt", opts, shellQuote(host+":"+r.Export))
}

// reachable replaces an unspecified address by this machine's name.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); host != "" && !ip.IsUnspecified() { // a name too
		return addr
	}
	if name, err := os.Hostname(); err == nil {
		host = name
	}
	return net.JoinHostPort(host, port)
}

// shellQuote quotes s for sh if necessary.
func shellQuote(s string) string {
	safe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-:@%+=,[]", r)
	}
	for _, r := range s {
		if !safe(r) {
			return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
		}
	}
	return s
}

// writePortFile writes the addresses atomically, so that nobody who waits for the file sees half
// of it.
func writePortFile(name string, r *readyJSON) error {
	lines := []string{"EXPORT=" + r.Export, "RDMA=" + r.RDMA, "MOUNT=" + r.Mount, "TCP=" + r.TCP} // also those that there are not
	for _, at := range r.places() {
		if at.name != "rdma" && at.name != "mount" && at.name != "tcp" {
			lines = append(lines, strings.ToUpper(at.name)+"="+at.addr)
		}
	}
	text := strings.Join(append(lines, "PID="+strconv.Itoa(r.PID)), "\n") + "\n"
	tmp := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+".tmp")
	err := os.WriteFile(tmp, []byte(text), 0o644)
	if err == nil {
		err = os.Rename(tmp, name)
	}
	if err != nil {
		return fmt.Errorf("--port-file %s: %w", name, bare(err))
	}
	return nil
}
