package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/internal/lockd"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpcbind"
	"go.uber.org/zap"
)

// Values of --locks.
const (
	locksOn   = "on"
	locksOff  = "off"
	locksAuto = "auto"
)

// lockService is the lock manager of a service.
type lockService struct {
	srv  *lockd.Server // nil: none
	udp  net.PacketConn
	why  string       // there is none
	lost func() error // why clients do not find it
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
func (s *service) openLocks(ctx context.Context, cfg *serviceConfig) error {
	if cfg.locks == "" || cfg.locks == locksOff {
		return nil
	}
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

// tryLocks opens the port for UDP, registers it and the one for TCP, and starts the lock manager: it is the
// only one of this machine then, and the only one that writes its state.
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
	mine, rest := lockMemory(cfg.config)
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
	udp, err := listenBeside(ctx, l.Addr())
	if err != nil {
		return fmt.Errorf("UDP: %w", bareListen(err))
	}
	list := lockEntries(l.Addr(), udp.LocalAddr())
	if err := s.registerLocks(ctx, list); err != nil {
		return errors.Join(err, udp.Close())
	}
	srv, err := lockd.New(lc)
	if err != nil {
		s.withdraw(list)
		return errors.Join(bare(err), udp.Close())
	}
	for _, p := range srv.Programs() {
		s.nfs.Add(p)
	}
	s.table.Entries = append(s.table.Entries, list...)
	s.locks.srv, s.locks.udp = srv, udp
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

// listenBeside listens on UDP, on the port that a listener has for TCP if it is free.
func listenBeside(ctx context.Context, a net.Addr) (net.PacketConn, error) {
	udp, err := new(net.ListenConfig).ListenPacket(ctx, "udp", a.String())
	if err == nil {
		return udp, nil
	}
	host, _, serr := net.SplitHostPort(a.String())
	if serr != nil {
		return nil, err
	}
	return new(net.ListenConfig).ListenPacket(ctx, "udp", net.JoinHostPort(host, "0"))
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

// registerLocks registers all entries or none, or leaves it to the watch if rpcbind is not there.
func (s *service) registerLocks(ctx context.Context, list []rpcbind.Entry) error {
	err := s.register(ctx, list)
	if !errors.Is(err, rpcbind.ErrRefused) {
		return nil
	}
	s.withdraw(list)
	return err
}

// serveLocks serves UDP.
func (s *service) serveLocks(cfg *serviceConfig) {
	udp := s.locks.udp
	if udp == nil {
		return
	}
	s.wg.Go(func() {
		err := lockd.ServeUDP(context.Background(), udp, s.srv.Handler, cfg.config.Limits.Allow)
		if !errors.Is(err, net.ErrClosed) && cfg.config.Logger != nil {
			cfg.config.Logger.Error("locks over UDP have ended", zap.Error(err))
		}
	})
}

// hangUp ends the calls over UDP.
func (k *lockService) hangUp() error {
	if k.udp == nil {
		return nil
	}
	return k.udp.Close()
}

// close ends the lock manager, after all calls.
func (k *lockService) close() {
	if k.srv != nil {
		k.srv.Close()
	}
}
