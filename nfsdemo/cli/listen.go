package cli

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/transport/rpc"
)

// sockets opens the listeners of a server: those that systemd has opened for it (sd_listen_fds(3)), whose
// FileDescriptorName is the name of a flag, and the others at the addresses of the flags. A nil *sockets
// has none of systemd's.
type sockets struct {
	inherited map[string][]net.Listener
	card      *Card // listens for --listen; nil: TCP does
}

// inherit takes the sockets of systemd, once, and checks the addresses of flags. One with a socket, which a card has not, gets
// its address, and so counts as set.
func (a *app) inherit(flags map[string]*string) (*sockets, error) {
	s := &sockets{card: a.card}
	known := slices.Sorted(maps.Keys(flags))
	if a.card != nil {
		known = slices.DeleteFunc(known, func(flag string) bool { return flag == "listen" })
	}
	var err error
	if s.inherited, err = activation.ListenersWithNames(); err != nil {
		return nil, fmt.Errorf("sockets of systemd: %w", err)
	}
	for name, list := range s.inherited {
		switch {
		case !slices.Contains(known, name):
			err = fmt.Errorf("socket %q of systemd: set FileDescriptorName to one of %s", name, strings.Join(known, ", "))
		case len(list) > 1:
			err = fmt.Errorf("%d sockets %q of systemd: give it one", len(list), name)
		default:
			*flags[name] = list[0].Addr().String()
		}
	}
	for flag, addr := range flags {
		if _, _, aerr := net.SplitHostPort(*addr); *addr != "" && aerr != nil {
			err = usagef("--%s %q is not an address: write host:port, for example 127.0.0.1:20049", flag, *addr)
		}
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// listen returns the listener of a flag, nil if there is none: no socket of systemd, and no address.
func (s *sockets) listen(ctx context.Context, flag, addr string) (net.Listener, error) {
	if s != nil && len(s.inherited[flag]) > 0 {
		l := s.inherited[flag][0]
		delete(s.inherited, flag)
		return l, nil
	}
	if addr == "" {
		return nil, nil //nolint:nilnil // not to listen is no error
	}
	var l net.Listener
	var err error
	if s != nil && s.card != nil && flag == "listen" {
		l, err = s.card.Listen(ctx, addr)
	} else {
		l, err = new(net.ListenConfig).Listen(ctx, "tcp", addr)
	}
	if err != nil {
		return nil, &listenError{flag, &rpc.OpError{Op: rpc.OpListen, Addr: addr, Err: bareListen(err)}}
	}
	return l, nil
}

// close closes the sockets that nobody has asked for.
func (s *sockets) close() {
	if s == nil {
		return
	}
	for l := range maps.Values(s.inherited) {
		for _, l := range l {
			_ = l.Close() // nothing was accepted
		}
	}
	s.inherited = nil
}

// listenError says for which flag an address could not be used.
type listenError struct {
	flag string
	err  error
}

func (e *listenError) Error() string { return "--" + e.flag + ": " + e.err.Error() }
func (e *listenError) Unwrap() error { return e.err }

// openUDP opens the port for MOUNT and locks over UDP, which clients find through rpcbind.
func (s *service) openUDP(ctx context.Context) (err error) {
	l := s.mount
	if l == nil {
		l = s.tcp
	}
	if l == nil || !s.cfg.register {
		return nil
	}
	if s.udp, err = listenBeside(ctx, l.Addr()); err != nil {
		return fmt.Errorf("--register: UDP: %w", bareListen(err))
	}
	return nil
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

// answersUDP reports whether a datagram is answered. Anybody can send one in the name of another, to whom the answer goes:
// a list of exports is many times as long as the question for it. So MOUNT answers those whom the administrator has named.
func (s *service) answersUDP(from net.Addr, prog uint32) bool {
	if allow := s.srv.Config.Limits.Allow; allow != nil {
		return allow(from)
	}
	return prog != mount3.Program || peeraddr.IP(from).IsLoopback() || s.nfs.Names(from)
}

// allowed returns a listener that passes on the connections of l that allow admits, and closes
// the others at once.
func allowed(l net.Listener, allow func(net.Addr) bool) net.Listener {
	if allow == nil {
		return l
	}
	return &allowListener{l, allow}
}

type allowListener struct {
	net.Listener
	allow func(net.Addr) bool
}

// Accept implements net.Listener.
func (l *allowListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil || l.allow(c.RemoteAddr()) {
			return c, err
		}
		_ = c.Close() // nothing was sent on it
	}
}
