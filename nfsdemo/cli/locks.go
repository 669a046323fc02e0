package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/internal/lockd"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpcbind"
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
