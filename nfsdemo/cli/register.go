package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/internal/lockd"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpcbind"
)

// registerTime limits the wait for rpcbind. A process that is stopped meanwhile withdraws nothing;
// the next one replaces what it has left (see replaced).
var registerTime = 5 * time.Second

// versions are the served versions of each program. Over RDMA, MOUNT has only the last.
var versions = map[uint32][]uint32{nfs3.Program: {nfs3.Version}, nfs3.ACLProgram: {nfs3.ACLVersion}, mount3.Program: {mount3.Version1, mount3.Version2, mount3.Version}}

// entries describes what the addresses that are not nil serve. All of them answer MOUNT; over TCP
// its own one comes first.
func entries(rdma, mount, tcp, udp net.Addr) (list []rpcbind.Entry) {
	seen := make(map[rpcbind.Entry]bool)
	add := func(at net.Addr, prog uint32, vers ...uint32) {
		for _, a := range faces(at) {
			for _, v := range vers {
				e := rpcbind.Entry{Prog: prog, Vers: v, Netid: rpcbind.NetidOf(a, at == rdma)}
				if seen[e] {
					continue
				}
				seen[e] = true
				e.Addr = universal(a)
				list = append(list, e)
			}
		}
	}
	for _, prog := range []uint32{nfs3.Program, nfs3.ACLProgram} {
		add(rdma, prog, versions[prog]...)
		add(tcp, prog, versions[prog]...)
	}
	add(rdma, mount3.Program, mount3.Version)
	for _, at := range []net.Addr{mount, tcp, udp} {
		add(at, mount3.Program, versions[mount3.Program]...)
	}
	return list
}

// atOf is the address of a listener or socket, nil if there is none.
func atOf(l net.Listener) net.Addr {
	if l == nil {
		return nil
	}
	return l.Addr()
}

// faces are the addresses that clients see of one at which a listener listens: [::] is that of IPv4 too (package
// net), but rpcbind, asked over IPv4, does not say so. There are none on a unix socket.
func faces(a net.Addr) []net.Addr {
	switch a := a.(type) {
	case *net.TCPAddr:
		if a.IP.Equal(net.IPv6unspecified) {
			return []net.Addr{&net.TCPAddr{IP: net.IPv4zero, Port: a.Port}, a}
		}
		return []net.Addr{a}
	case *net.UDPAddr:
		if a.IP.Equal(net.IPv6unspecified) {
			return []net.Addr{&net.UDPAddr{IP: net.IPv4zero, Port: a.Port}, a}
		}
		return []net.Addr{a}
	}
	return nil
}

// universal is rpcbind's form of one of the faces.
func universal(a net.Addr) string { return rpcbind.Universal(netip.MustParseAddrPort(a.String())) }

// registerEvery is how often a look is taken at what rpcbind knows: one that was started again has lost its table, and tells nobody.
const registerEvery = 30 * time.Second

// registerAll registers all entries or none, or leaves it to the watch if rpcbind is not there.
func (s *service) registerAll(ctx context.Context, list []rpcbind.Entry) error {
	err := s.register(ctx, list)
	if !errors.Is(err, rpcbind.ErrRefused) {
		return nil
	}
	s.withdraw(list)
	return err
}

// registerQuotas registers rquota, unless rpc.rquotad has done so: that knows the quotas, too.
func (s *service) registerQuotas(ctx context.Context) {
	var list []rpcbind.Entry
	for _, e := range s.table.Entries {
		if e.Prog == mount3.Program && e.Vers <= server.QuotaVersion2 {
			e.Prog = server.QuotaProgram
			list = append(list, e)
		}
	}
	if s.registerAll(ctx, list) == nil {
		s.table.Entries = append(s.table.Entries, list...)
	}
}

// keepRegistered registers what rpcbind has lost, or did not take because it was not there, until unregister.
func (s *service) keepRegistered() {
	if s.binding == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { s.binding.watch(ctx) })
	s.unbind = func() {
		cancel()
		wg.Wait()
	}
}

// registerAgain is the check of s.binding.
func (s *service) registerAgain(ctx context.Context) error {
	known, err := rpcbind.List(ctx)
	if err != nil {
		return fmt.Errorf("--register: %w: is rpcbind running?", err)
	}
	var lost []rpcbind.Entry
	for _, e := range s.table.Entries {
		if !slices.ContainsFunc(known, func(k rpcbind.Entry) bool { k.Owner = e.Owner; return k == e }) {
			lost = append(lost, e)
		}
	}
	if err := s.register(ctx, lost); err != nil {
		return err
	}
	if _, away := s.binding.lost(); len(lost) > 0 && away == nil {
		s.log.Warn("registered again: rpcbind had lost services, as when it is started again", "services", len(lost))
	}
	return nil
}

// register registers entries with rpcbind, within registerTime.
func (s *service) register(ctx context.Context, list []rpcbind.Entry) error {
	ctx, cancel := context.WithTimeout(ctx, registerTime)
	defer cancel()
	s.registering.Lock()
	defer s.registering.Unlock()
	for _, e := range list {
		err := rpcbind.Register(ctx, e)
		if errors.Is(err, rpcbind.ErrRefused) && replaced(ctx, &e) {
			err = rpcbind.Register(ctx, e)
		}
		switch {
		case errors.Is(err, rpcbind.ErrRefused) && lockd.Serves(e.Prog):
			return fmt.Errorf("rpcbind knows another lock manager or status monitor (%w): stop rpc.statd, and unmount what this machine mounts by NFSv3 with locks", err)
		case errors.Is(err, rpcbind.ErrRefused):
			return fmt.Errorf("--register: %w: another NFS server is registered: stop it first", err)
		case err != nil:
			return fmt.Errorf("--register: %w: is rpcbind running?", err)
		}
		if !slices.Contains(s.named, e) {
			s.named = append(s.named, e)
		}
	}
	return nil
}

// replaced withdraws the entry in the place of e if nobody listens there anymore, because the
// service that made it has crashed.
func replaced(ctx context.Context, e *rpcbind.Entry) bool {
	old, err := rpcbind.Registered(ctx, e.Prog, e.Vers, e.Netid)
	if err != nil {
		return false
	}
	if e.Netid == rpcbind.NetUDP || e.Netid == rpcbind.NetUDP6 {
		p, err := new(net.ListenConfig).ListenPacket(ctx, "udp", old.String())
		if err != nil {
			return false // somebody has the port
		}
		return p.Close() == nil && rpcbind.Unregister(ctx, *e) == nil
	}
	c, err := new(net.Dialer).DialContext(ctx, "tcp", old.String())
	if err == nil {
		_ = c.Close() // it only showed that somebody listens
		return false
	}
	return errors.Is(err, syscall.ECONNREFUSED) && rpcbind.Unregister(ctx, *e) == nil
}

// unregister withdraws the entries that register has made.
func (s *service) unregister() error {
	if s.unbind != nil {
		s.unbind()
	}
	s.withdraw(slices.Clone(s.named)) // nobody registers any more
	return nil
}

// withdraw takes back those of some entries that were registered.
func (s *service) withdraw(list []rpcbind.Entry) {
	ctx, cancel := context.WithTimeout(context.Background(), registerTime)
	defer cancel()
	s.registering.Lock()
	defer s.registering.Unlock()
	s.named = slices.DeleteFunc(s.named, func(e rpcbind.Entry) bool {
		if !slices.Contains(list, e) {
			return false
		}
		_ = rpcbind.Unregister(ctx, e) // the service goes on, or ends, either way
		return true
	})
}

// Values of --locks.
const (
	locksOn   = "on"
	locksOff  = "off"
	locksAuto = "auto"
)

// lockService is the lock manager of a service.
type lockService struct {
	srv  *lockd.Server // nil: none
	why  string        // there is none
	lost func() error  // why clients do not find it

	wanted bool // --locks on, or auto with --register
}

// missing says why there are no locks although they are wanted; "" if there is nothing to say.
func (k *lockService) missing() string {
	if !k.wanted {
		return ""
	}
	why, _ := strings.CutPrefix(k.String(), locksOff+": ")
	if why == locksOn {
		return ""
	}
	return why
}

// String says whether there are locks; "" if nobody has asked.
func (k *lockService) String() string {
	switch {
	case k.srv != nil:
		if err := k.lost(); err != nil {
			return locksOff + ": " + err.Error()
		}
		return locksOn
	case k.why != "":
		return locksOff + ": " + k.why
	}
	return ""
}

// checkLocks checks --locks.
func (cfg *serviceConfig) checkLocks() error {
	switch cfg.locks {
	case locksOn:
		if !cfg.register {
			return usagef("--locks on needs --register: clients find locks through rpcbind, at no other port")
		}
	case locksOff, locksAuto:
	default:
		return usagef("--locks %q: want on, off or auto", cfg.locks)
	}
	return nil
}

// openLocks starts the lock manager if there can be one.
func (s *service) openLocks(ctx context.Context) error {
	cfg := s.cfg
	if cfg.locks == "" || cfg.locks == locksOff {
		return nil
	}
	s.locks.wanted = cfg.locks == locksOn || cfg.register
	err := s.tryLocks(ctx, cfg)
	if err == nil {
		return nil
	}
	if cfg.locks == locksOn {
		return fmt.Errorf("--locks on: %w", err)
	}
	s.locks.why = err.Error()
	return nil
}

// tryLocks registers the ports for UDP and TCP, and starts the lock manager: it is the only one of this machine
// then, and the only one that writes its state.
func (s *service) tryLocks(ctx context.Context, cfg *serviceConfig) error {
	l := s.tcp
	if l == nil {
		l = s.mount
	}
	switch {
	case !cfg.register:
		return errors.New("clients find them through rpcbind: --register")
	case l == nil:
		return errors.New("there is no port for TCP: --mount-listen or --tcp")
	}
	mine, rest := lockMemory(s.srv.Config)
	lc := &lockd.Config{Files: s.nfs, Logger: cfg.config.Logger, Limits: lockd.LimitsOf(mine)}
	for _, e := range s.set.exports() {
		if k, ok := e.FS.(backend.Locker); ok {
			lc.Shared = append(lc.Shared, k)
		}
	}
	if !cfg.memory { // else the files end with this process
		dir := cfg.state
		if dir == "" {
			dir = stateDir()
		}
		if dir == "" {
			return errors.New("there is no place for the names of clients: --state DIR")
		}
		lc.File = filepath.Join(dir, "locks")
	}
	list := lockEntries(l.Addr(), s.udp.LocalAddr())
	if err := s.registerAll(ctx, list); err != nil {
		return err
	}
	srv, err := lockd.New(lc)
	if err != nil {
		s.withdraw(list)
		return bare(err)
	}
	for _, p := range srv.Programs() {
		s.nfs.Add(p)
	}
	s.table.Entries = append(s.table.Entries, list...)
	s.locks.srv = srv
	s.locks.lost = func() error { _, err := s.binding.lost(); return err }
	s.srv.Config = rest
	return nil
}

// lockMemory divides --memory-limit: an eighth is for locks, and the rest for calls.
func lockMemory(cfg *transport.Config) (forLocks int64, forCalls *transport.Config) {
	n := cmp.Or(cfg.Limits.Memory, transport.DefaultMemory)
	rest := *cfg
	rest.Limits.Memory = max(n-n/8, minMemory)
	return n / 8, &rest
}

// lockEntries are the programs of the lock manager.
func lockEntries(tcp, udp net.Addr) (list []rpcbind.Entry) {
	for _, a := range slices.Concat(faces(tcp), faces(udp)) {
		for _, p := range [][2]uint32{
			{lockd.NSMProgram, lockd.NSMVersion}, {lockd.NLMProgram, lockd.Version1}, {lockd.NLMProgram, lockd.Version3}, {lockd.NLMProgram, lockd.Version4},
		} {
			list = append(list, rpcbind.Entry{Prog: p[0], Vers: p[1], Netid: rpcbind.NetidOf(a, false), Addr: universal(a)})
		}
	}
	return list
}

// close ends the lock manager, after all calls.
func (k *lockService) close() error {
	if k.srv != nil {
		k.srv.Close()
	}
	return nil
}
