package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/internal/exports"
	"github.com/stag-rdma/stag/nfsdemo/internal/lockd"
	"github.com/stag-rdma/stag/nfsdemo/internal/ops"
	"github.com/stag-rdma/stag/nfsdemo/internal/principals"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/rdmap/capture"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/transport/rpcbind"
	"github.com/stag-rdma/stag/xdr"
)

// serviceConfig is what a service serves, and where.
type serviceConfig struct {
	exports  []exports.Export                 // directories, or, with memory or a volume, names; no FS yet
	again    func() ([]exports.Export, error) // reads them again; nil: there is nothing to read
	memory   bool
	volume   Volume // of a Storage; nil: none
	state    string // directory of the key of handles, "": the usual place
	register bool   // registers with rpcbind
	locks    string // of --locks, "" as off

	manageGIDs bool   // groups are those of this machine
	rdma       string // address to listen on, "" for none
	mount      string // MOUNT over TCP
	tcp        string // NFS and MOUNT over TCP
	config     *transport.Config
	log        *serverLog // nil: none
	sockets    *sockets   // nil: none of systemd
	tls        *serverTLS // nil: none
	kerberos   *kerberos  // nil: none
	push       pushConfig
	status     string          // address for HTTP, "" for none
	control    string          // path of the control socket; "": in the directory of the state, if there is one
	replies    string          // address for the connections of clients' reply logs, "" for none
	capture    *capture.Writer // records the connections; nil: none
	pcap       string          // the file of that; "": none
}

// service is an NFS server with its listeners. All of them answer MOUNT too.
type service struct {
	cfg   *serviceConfig
	path  string // of the first export
	rdma  net.Listener
	mount net.Listener
	tcp   net.Listener
	udp   net.PacketConn // MOUNT and locks; nil: none
	srv   *transport.Server
	log   *serverLog // nil: none

	set     exportSet
	reading atomic.Bool // the configuration is being read again
	finding atomic.Bool // the files of locks are being looked for
	owners  owners
	nfs     *server.Server
	calls   *ops.Calls
	started time.Time
	statusL net.Listener // nil: none
	control net.Listener // nil: none
	mounts  mountFile
	web     string        // the scheme of that
	status  *statusServer // nil: none

	reload func() (string, error) // reads the configuration again, and returns the exports; nil: there is nothing to read
	push   *pushService           // nil: none
	reply  *repliesService        // nil: none
	locks  lockService
	wg     sync.WaitGroup
	errs   chan error // first error of each listener
	table  rpcbind.Table

	binding     *health    // of rpcbind; nil: nobody registers
	unbind      func()     // ends its watch; nil: there is none
	registering sync.Mutex // held by those who register and withdraw
	named       []rpcbind.Entry
}

// newService opens the export and the listeners, and starts serving.
func newService(ctx context.Context, cfg *serviceConfig) (*service, error) {
	s := &service{cfg: cfg, errs: make(chan error, 6), started: time.Now(), log: cfg.log}
	if err := s.open(ctx, cfg); err != nil {
		_ = s.release() // the first error counts
		return nil, err
	}
	s.start(s.rdma, s.srv.Serve)
	if s.mount != s.tcp {
		s.start(s.mount, func(l net.Listener) error { return s.srv.ServeStreamHandler(l, mountOnly{s.srv.Handler}) })
	}
	s.start(s.tcp, s.srv.ServeStream)
	if !cfg.memory && cfg.volume == nil { // what a volume needs, nobody here knows
		limitMemory(cfg.config)
	}
	s.serveUDP(cfg)
	if s.binding != nil {
		s.unbind = s.keepRegistered()
	}
	s.push.serve(s)
	s.reply.serve(s)
	s.mounts.keep(s.nfs.Mounts)
	s.status = serveStatus(s.statusL, s.control, s.statusServer(), s.srv.Stats, s.errs)
	return s, nil
}

// open opens everything that a service needs. If it returns an error, some of it is open.
func (s *service) open(ctx context.Context, cfg *serviceConfig) error {
	if err := s.openExports(cfg); err != nil {
		return err
	}
	if s.log != nil {
		s.owners.log = s.log.Logger
	}
	if cfg.kerberos != nil {
		cfg.kerberos.users = &s.owners.users
	}
	if err := cfg.kerberos.load(); err != nil {
		return fmt.Errorf("--keytab: %w", err)
	}
	if err := s.openControl(cfg); err != nil {
		return err
	}
	sc := &server.Config{
		Principal: cfg.kerberos.user, Exports: s.set.exports(), Logger: cfg.config.Logger, Local: s.owners.of, Named: new(exports.Names).Has,
		Mounted: s.mounts.read(), MountsChanged: s.mounts.change,
	}
	if cfg.manageGIDs {
		sc.Groups = s.owners.users.Groups
	}
	if s.log != nil && !principals.Complete() && believes(sc.Exports) {
		s.log.Warn("users and groups are those of /etc/passwd and /etc/group: there is no getent(1) to ask for others")
	}
	var err error
	h, err := server.New(sc)
	if err != nil {
		return err
	}
	if err := s.set.serveBy(h.SetExports); err != nil { // something may have changed since
		return err
	}
	s.nfs, s.calls = h, &ops.Calls{ExportOf: h.ExportOf}
	if err := cfg.tls.load(); err != nil {
		return err
	}
	if s.push, err = openPush(ctx, cfg, h); err != nil {
		return err
	}
	s.table.Next = h
	if s.push != nil {
		s.table.Next = s.push.srv
	}
	s.table.Next = ops.New(s.table.Next, cfg.config.Logger, s.counted(cfg))
	reply, front, err := openRepliesService(ctx, cfg, &s.table)
	if err != nil {
		return err
	}
	s.reply = reply
	tc := *cfg.config
	tc.Duplicates.Owner = s.owners.name
	tc.TLS = cfg.tls.config()
	if cfg.kerberos != nil {
		tc.GSS.Accept = cfg.kerberos.accept
	}
	s.srv = &transport.Server{Handler: front, Config: &tc}
	for _, l := range []struct {
		flag, addr string
		to         *net.Listener
	}{{"listen", cfg.rdma, &s.rdma}, {"mount-listen", cfg.mount, &s.mount}, {"tcp", cfg.tcp, &s.tcp}, {"status", cfg.status, &s.statusL}} {
		if l.flag == "tcp" && l.addr != "" && l.addr == cfg.mount {
			s.tcp = s.mount // one port for both
			continue
		}
		opened, err := cfg.sockets.listen(ctx, l.flag, l.addr)
		if err != nil {
			return err
		}
		switch {
		case opened == nil: // *l.to stays nil
		case l.flag == "status":
			s.web, *l.to = cfg.tls.web(opened)
		default:
			known, err := s.owners.listen(opened)
			if err != nil && believes(s.set.exports()) {
				_ = opened.Close() // the error above says more
				return err
			}
			*l.to = cfg.capture.TapListener(known)
		}
	}
	var udp net.Addr
	if cfg.register {
		if err := s.openUDP(ctx); err != nil {
			return err
		}
		if s.udp != nil {
			udp = s.udp.LocalAddr()
		}
	}
	s.table.Entries = entries(atOf(s.rdma), atOf(s.mount), atOf(s.tcp), udp)
	if cfg.register {
		var log *slog.Logger
		if s.log != nil {
			log = s.log.Logger
		}
		s.binding = newHealth("rpcbind", log, s.registerAgain)
		s.binding.every = registerEvery
		if err := s.register(ctx, s.table.Entries); errors.Is(err, rpcbind.ErrRefused) {
			return err
		} else if err != nil { // it may come
			s.binding.set(err)
		}
		if !cfg.memory && cfg.volume == nil {
			s.registerQuotas(ctx)
		}
	}
	return s.openLocks(ctx, cfg)
}

// believes reports whether it matters who a caller is.
func believes(list []server.Export) bool {
	return slices.ContainsFunc(list, func(e server.Export) bool { return e.FS == nil || e.FS.Info().Owners })
}

// bareListen strips from err what OpError also says.
func bareListen(err error) error {
	if oe, ok := errors.AsType[*net.OpError](err); ok {
		return oe.Err
	}
	return err
}

// openExports opens the file systems.
func (s *service) openExports(cfg *serviceConfig) error {
	if err := errors.Join(cfg.tls.check(cfg.exports), cfg.kerberos.check(cfg.exports)); err != nil {
		return err
	}
	switch {
	case cfg.volume != nil:
		s.set.make = cfg.volume.Export
	case cfg.memory:
		s.set.make = func(string) (backend.FS, error) { return mem.New(nil), nil }
	default:
		s.set.check = func(e *exports.Export) error { return cfg.checkPlaces([]exports.Export{*e}, inside) }
		key, err := cfg.openKey()
		if err != nil {
			return err
		}
		s.set.key = key
		dropUmask()
	}
	if s.log != nil {
		s.set.log = s.log.Logger
	}
	s.set.changed = func() { failed("serving " + s.paths()) }
	if err := s.set.load(cfg.exports); err != nil {
		return err
	}
	away := s.set.away()
	if len(away) == len(cfg.exports) && !slices.ContainsFunc(cfg.exports, func(e exports.Export) bool { return e.Mountpoint != "" }) {
		// Of none is it said that it may come later.
		return fmt.Errorf("export %s: %s", cfg.exports[0].Path, away[0].Error)
	}
	s.path = s.set.exports()[0].Path
	if cfg.again != nil || cfg.tls != nil || cfg.kerberos != nil {
		s.reload = func() (string, error) { err := s.loadAgain(cfg); return s.paths(), err }
	}
	return nil
}

// loadAgain reads again what may have changed: certificates, CAs, exports.
func (s *service) loadAgain(cfg *serviceConfig) error {
	if err := cfg.tls.load(); err != nil {
		return err
	}
	if cfg.again != nil {
		if err := s.export(cfg); err != nil {
			return err
		}
	}
	if err := cfg.kerberos.load(); err != nil {
		return err
	}
	if s.push != nil {
		s.push.srv.RecheckTLS()
	}
	if s.reply != nil {
		s.reply.pusher.RecheckTLS()
	}
	return s.srv.RecheckTLS()
}

// export serves what the configuration says now.
func (s *service) export(cfg *serviceConfig) error {
	list, err := s.readAgain(cfg.again)
	if err != nil {
		return err
	}
	if !cfg.memory && cfg.volume == nil {
		if err := cfg.checkPlaces(list, soon); err != nil {
			return err
		}
	}
	if err := errors.Join(cfg.tls.check(list), cfg.kerberos.check(list)); err != nil {
		return err
	}
	return s.set.load(list)
}

// readTime limits how long the configuration may take to be read again: it may be on a disk that hangs, or a pipe, and
// the server hears no other signal meanwhile.
const readTime = 3 * time.Second

// readAgain reads the configuration, unless a read of before still hangs.
func (s *service) readAgain(read func() ([]exports.Export, error)) ([]exports.Export, error) {
	if !s.reading.CompareAndSwap(false, true) {
		return nil, errors.New("it is still being read: --config hangs")
	}
	var list []exports.Export
	var err error
	done := make(chan struct{})
	go func() {
		list, err = read()
		s.reading.Store(false)
		close(done)
	}()
	select {
	case <-done:
		return list, err
	case <-time.After(readTime):
		return nil, fmt.Errorf("--config was not read within %v", readTime)
	}
}

// paths returns the paths of the exports, with blanks between them, and what cannot be used now.
func (s *service) paths() string {
	var paths []string
	for _, e := range s.set.exports() {
		paths = append(paths, e.Path)
	}
	parts := []string{strings.Join(paths, " ")}
	for _, p := range s.set.away() {
		parts = append(parts, fmt.Sprintf("%s cannot be used: %s", p.Export, p.Error))
	}
	if why := s.locks.missing(); why != "" {
		parts = append(parts, "locks are off: "+why)
	}
	return strings.Join(parts, "; ")
}

// start serves one listener, if there is one.
func (s *service) start(l net.Listener, serve func(net.Listener) error) {
	if l == nil {
		return
	}
	s.wg.Go(func() {
		if err := serve(l); !errors.Is(err, transport.ErrServerClosed) {
			s.errs <- err
		}
	})
}

// counted returns the counters of NFS calls if somebody can see them.
func (s *service) counted(cfg *serviceConfig) *ops.Calls {
	if cfg.status == "" {
		return nil
	}
	return s.calls
}

// addresses are those where the service can be reached, by the names that the log gives them.
func (s *service) addresses() map[string]string {
	return map[string]string{
		"rdma": addrOf(s.rdma), "tcp": addrOf(s.tcp), "mount": addrOf(s.mount), "push": s.push.addr(), "replies": s.reply.addr(), "status": addrOf(s.statusL),
	}
}

// stop answers the calls that have arrived and ends. If ctx ends first, it aborts them.
func (s *service) stop(ctx context.Context) error {
	s.status.stopping()
	err := s.srv.Shutdown(ctx)
	if cerr := s.release(); err == nil {
		err = cerr
	}
	return err
}

// release closes listeners that were not handed to a server, and the export.
func (s *service) release() error {
	s.unregister()
	for _, l := range []net.Listener{s.rdma, s.mount, s.tcp, s.statusL, s.control} {
		if l != nil {
			_ = l.Close() // most are closed already
		}
	}
	if s.udp != nil {
		_ = s.udp.Close()
	}
	err := errors.Join(s.status.close(), s.push.close(), s.reply.close())
	s.wg.Wait()
	s.mounts.close()
	s.owners.close()
	s.locks.close()
	return errors.Join(err, s.set.close())
}

// mountOnly serves MOUNT, quotas, locks, and nothing else: who opens the port of --mount-listen does not mean to serve
// NFS over TCP.
type mountOnly struct{ svc rpc.Handler }

// beside reports whether a program is served beside NFS.
func beside(prog uint32) bool {
	return prog == mount3.Program || prog == server.QuotaProgram || lockd.Serves(prog)
}

// ServeRPC answers calls of other programs with PROG_UNAVAIL.
func (m mountOnly) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	if !beside(req.Prog) {
		resp.Stat = xdr.ProgUnavail
		return
	}
	m.svc.ServeRPC(ctx, req, resp)
}

// Describe asks the service.
func (m mountOnly) Describe(req *rpc.Request) (t rpc.Traits) {
	if beside(req.Prog) {
		t = rpc.Describe(m.svc, req)
	}
	return t
}

// leastProcs is the least GOMAXPROCS for a server that writes to disks.
const leastProcs = 8

// spareProcs raises GOMAXPROCS to leastProcs, unless the environment sets it. A thread that waits
// for a disk keeps its processor (in the sense of Go's scheduler) until the runtime notices. With
// only two of them, two writes could stop the server although the machine is idle.
func spareProcs() {
	if os.Getenv("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) < leastProcs {
		runtime.GOMAXPROCS(leastProcs)
	}
}
