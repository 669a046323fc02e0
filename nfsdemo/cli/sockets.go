package cli

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/stag-rdma/stag/transport/rpc"
)

// sockets opens the listeners of a server: those that systemd has opened for it (sd_listen_fds(3)), whose
// FileDescriptorName is the name of a flag, and the others at the addresses of the flags. A nil *sockets
// has none of systemd's.
type sockets struct{ inherited map[string][]net.Listener }

// inheritSockets takes the sockets of systemd, once. known are the flags that can have one.
func inheritSockets(known ...string) (*sockets, error) {
	s := &sockets{}
	slices.Sort(known)
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
		}
		if err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

// name gives the flags without an address those of systemd's sockets, so that they count as set.
func (s *sockets) name(flags map[string]*string) {
	for flag, addr := range flags {
		if list := s.inherited[flag]; len(list) > 0 {
			*addr = list[0].Addr().String()
		}
	}
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
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
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
