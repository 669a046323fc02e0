package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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
	"github.com/stag-rdma/stag/nfsdemo/internal/users"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/rdmap/capture"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/push"
	"github.com/stag-rdma/stag/transport/replies"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/transport/rpcbind"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
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
	log        *slog.Logger // nil: nothing is logged
	sockets    *sockets     // nil: none of systemd
	tls        *serverTLS   // nil: none
	kerberos   *kerberos    // nil: none
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
	log   *slog.Logger

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

	reload            func() (string, error) // reads the configuration again, and returns the exports; nil: there is nothing to read
	push              *push.Server           // nil: none
	pushLock          *os.File
	commits           net.Listener    // for the connections of push
	pusher            *replies.Pusher // of replies, into logs of clients; nil: none
	replyL            net.Listener    // for the connections of these
	pushing, replying sync.WaitGroup
	locks             lockService
	parts             []part
	wg                sync.WaitGroup // of those who serve calls
	errs              chan error     // first error of each listener
	table             rpcbind.Table

	binding     *health    // of rpcbind; nil: nobody registers
	unbind      func()     // ends its watch; nil: there is none
	registering sync.Mutex // held by those who register and withdraw
	named       []rpcbind.Entry
}

// part is something of which a service consists. A nil function has nothing to do.
type part struct {
	open  func(ctx context.Context) error // what it leaves open when it fails, close closes
	serve func()
	close func() error
}

// newService opens its parts and serves. Each part needs only those above it: so they are opened in this order, and closed
// in reverse.
func newService(ctx context.Context, cfg *serviceConfig) (*service, error) {
	s := &service{cfg: cfg, errs: make(chan error, 8), started: time.Now(), log: cmp.Or(cfg.log, slog.New(slog.DiscardHandler))}
	s.parts = []part{
		{open: s.openExports, close: s.set.close},
		{open: s.openKeys, close: s.owners.close},
		{open: s.openControl, close: func() error { return closed(s.control) }},
		{open: s.openNFS, serve: func() { s.mounts.keep(s.nfs.Mounts) }, close: s.mounts.close},
		{open: s.openPush, serve: func() { s.start(&s.pushing, s.commits, s.push.Serve, push.ErrServerClosed) }, close: s.closePush},
		{open: s.openReplies, serve: func() { s.start(&s.replying, s.replyL, s.pusher.Serve, replies.ErrClosed) }, close: s.closeReplies},
		{open: s.openTransport, serve: s.limitMemory},
		{open: s.openListeners, close: func() error { return closed(s.rdma, s.mount, s.tcp, s.statusL) }},
		{open: s.openUDP, close: func() error { return closed(s.udp) }},
		{open: s.openRegistration, close: s.unregister},
		{open: s.openLocks, close: s.locks.close},
		{serve: s.serveCalls, close: s.endCalls},
		// Clients shall not find ports that are closed, nor find another server's withdrawn, which may have them next.
		{serve: s.keepRegistered, close: s.unregister},
		{serve: func() { s.status = serveStatus(s.statusL, s.control, s.statusServer(), s.srv.Stats, s.errs) }, close: func() error { return s.status.close() }},
	}
	for i, p := range s.parts {
		if p.open == nil {
			continue
		}
		if err := p.open(ctx); err != nil {
			s.parts = s.parts[:i+1]
			_ = s.release() // the first error counts
			return nil, err
		}
	}
	for _, p := range s.parts {
		if p.serve != nil {
			p.serve()
		}
	}
	return s, nil
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

// release closes the parts, the last one first.
func (s *service) release() error {
	var errs []error
	for _, p := range slices.Backward(s.parts) {
		if p.close != nil {
			errs = append(errs, p.close())
		}
	}
	return errors.Join(errs...)
}

// closed closes what is there. Most of it is closed already, by those who served it.
func closed(list ...io.Closer) error {
	for _, l := range list {
		if l != nil {
			_ = l.Close()
		}
	}
	return nil
}

// openExports opens the file systems.
func (s *service) openExports(context.Context) error {
	cfg := s.cfg
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
	s.set.log = s.log
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

// openKeys reads the keytab and the certificates. Users of this machine are asked for when they come.
func (s *service) openKeys(context.Context) error {
	s.owners.log = s.log
	if s.cfg.kerberos != nil {
		s.cfg.kerberos.users = &s.owners.users
	}
	if err := s.cfg.kerberos.load(); err != nil {
		return fmt.Errorf("--keytab: %w", err)
	}
	return s.cfg.tls.load()
}

// openNFS makes the handler of NFS and MOUNT.
func (s *service) openNFS(context.Context) (err error) {
	cfg := s.cfg
	sc := &server.Config{
		Principal: cfg.kerberos.user, Exports: s.set.exports(), Logger: cfg.config.Logger, Local: s.owners.of, Named: new(exports.Names).Has,
		Mounted: s.mounts.read(), MountsChanged: s.mounts.change,
	}
	if cfg.manageGIDs {
		sc.Groups = s.owners.users.Groups
	}
	if !users.Complete() && believes(sc.Exports) {
		s.log.Warn("users and groups are those of /etc/passwd and /etc/group: there is no getent(1) to ask for others")
	}
	if s.nfs, err = server.New(sc); err != nil {
		return err
	}
	s.calls = &ops.Calls{ExportOf: s.nfs.ExportOf}
	return s.set.serveBy(s.nfs.SetExports) // something may have changed since
}

// openTransport says how calls come, and through whom: the one that pushes replies into logs, the list that rpcbind has too,
// what logs and counts, push logs, and NFS.
func (s *service) openTransport(context.Context) error {
	var h rpc.Handler = s.nfs
	if s.push != nil {
		h = s.push
	}
	counted := s.calls
	if s.cfg.status == "" { // nobody can see them
		counted = nil
	}
	s.table.Next = ops.New(h, s.cfg.config.Logger, counted)
	h = &s.table
	if s.pusher != nil {
		h = s.pusher
	}
	tc := *s.cfg.config
	tc.Duplicates.Owner = s.owners.name
	tc.TLS = s.cfg.tls.config()
	if s.cfg.kerberos != nil {
		tc.GSS.Accept = s.cfg.kerberos.accept
	}
	s.srv = &transport.Server{Handler: h, Config: &tc}
	return nil
}

// limitMemory limits what the garbage collector leaves. What a volume needs, nobody here knows.
func (s *service) limitMemory() {
	if !s.cfg.memory && s.cfg.volume == nil {
		limitMemory(s.cfg.config)
	}
}

// openListeners listens at the addresses of the flags.
func (s *service) openListeners(ctx context.Context) error {
	cfg := s.cfg
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
			known, err := opened, error(nil)
			if l.flag != "listen" || cfg.sockets == nil || cfg.sockets.card == nil || believes(s.set.exports()) {
				known, err = s.owners.listen(opened)
			}
			if err != nil && believes(s.set.exports()) {
				_ = opened.Close() // the error above says more
				return err
			}
			*l.to = cfg.capture.TapListener(known)
		}
	}
	return nil
}

// openRegistration tells rpcbind where the service is.
func (s *service) openRegistration(ctx context.Context) error {
	var udp net.Addr
	if s.udp != nil {
		udp = s.udp.LocalAddr()
	}
	s.table.Entries = entries(atOf(s.rdma), atOf(s.mount), atOf(s.tcp), udp)
	if !s.cfg.register {
		return nil
	}
	s.binding = newHealth("rpcbind", s.log, s.registerAgain)
	s.binding.every = registerEvery
	if err := s.register(ctx, s.table.Entries); errors.Is(err, rpcbind.ErrRefused) {
		return err
	} else if err != nil { // it may come
		s.binding.set(err)
	}
	if !s.cfg.memory && s.cfg.volume == nil {
		s.registerQuotas(ctx)
	}
	return nil
}

// start serves l, unless there is none, until that ends by over, or for the worse.
func (s *service) start(wg *sync.WaitGroup, l net.Listener, serve func(net.Listener) error, over error) {
	if l == nil {
		return
	}
	wg.Go(func() {
		if err := serve(l); !errors.Is(err, over) {
			s.errs <- err
		}
	})
}

// serveCalls serves every port.
func (s *service) serveCalls() {
	over := transport.ErrServerClosed
	s.start(&s.wg, s.rdma, s.srv.Serve, over)
	if s.mount != s.tcp {
		s.start(&s.wg, s.mount, func(l net.Listener) error { return s.srv.ServeStreamHandler(l, mountOnly{s.srv.Handler}) }, over)
	}
	s.start(&s.wg, s.tcp, s.srv.ServeStream, over)
	if s.udp == nil {
		return
	}
	s.wg.Go(func() {
		err := lockd.ServeUDP(context.Background(), s.udp, mountOnly{s.srv.Handler}, s.answersUDP)
		if !errors.Is(err, net.ErrClosed) && s.cfg.config.Logger != nil {
			s.cfg.config.Logger.Error("MOUNT and locks over UDP have ended", zap.Error(err))
		}
	})
}

// endCalls waits until no call is being served: the parts above are closed next.
func (s *service) endCalls() error {
	_ = closed(s.rdma, s.mount, s.tcp, s.udp)
	s.wg.Wait()
	return nil
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

// loadAgain reads again what may have changed: certificates, CAs, exports.
func (s *service) loadAgain(cfg *serviceConfig) error {
	if err := cfg.tls.load(); err != nil {
		return err
	}
	load := cfg.kerberos.load
	if cfg.again != nil {
		load = func() error { return s.export(cfg) }
	}
	if err := load(); err != nil {
		return err
	}
	if s.push != nil {
		s.push.RecheckTLS()
	}
	if s.pusher != nil {
		s.pusher.RecheckTLS()
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
	// Now it is known what the configuration says of principals, and if the keytab cannot be read, the exports stay as they were.
	if err := cfg.kerberos.load(); err != nil {
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
