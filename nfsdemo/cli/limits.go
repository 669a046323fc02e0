package cli

import (
	"fmt"
	"math"
	"net"
	"strings"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/transport"
)

// limitFlags are the flags that say whom a server serves, and how much of it one client
// may have.
type limitFlags struct {
	allow        []string
	conns        int
	clientConns  int
	memory       int // MiB
	clientMemory int // MiB
	pulls        int
	clientPulls  int
}

// add declares the flags on a command.
func (f *limitFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.allow, "allow", nil, "serve only clients of this `network`, 192.0.2.0/24, or address; repeat it for several")
	flags.IntVar(&f.conns, "max-connections", 0, "connections at a time; 0: 16384")
	flags.IntVar(&f.clientConns, "client-connections", 0, "connections of one client address; 0: an eighth of all, -1: no limit of its own")
	flags.IntVar(&f.memory, "memory-limit", 0, "`MiB` for calls whose data are on their way; 0: 256")
	flags.IntVar(&f.clientMemory, "client-memory", 0, "`MiB` of these for one client address; 0: half of all, -1: no limit of its own")
	flags.IntVar(&f.pulls, "max-pulls", 0, "calls whose chunks are read at a time; 0: 4096")
	flags.IntVar(&f.clientPulls, "client-pulls", 0, "calls of one client address whose chunks are read; 0: a quarter of all, -1: no limit of its own")
}

// Ranges of flags. What transport.Config refuses is refused here before, since its errors name its own fields.
const (
	maxCredits = 4096                                // on one connection
	maxCount   = 1 << 30                             // of connections, of pulls
	minMiB     = transport.DefaultMaxPayload>>20 + 1 // room for the largest call
	maxMiB     = min(math.MaxInt64>>20, math.MaxInt) // in octets it fits an int64
)

// inRange refuses the value n of a flag unless it is 0, the default, or least to most.
func inRange(flag string, n, least, most int) error {
	if n != 0 && (n < least || n > most) {
		return usagef("--%s %d: want %d to %d, or 0 for the default", flag, n, least, most)
	}
	return nil
}

// setting is a flag of a limit, its value, and its range.
type setting struct {
	flag           string
	n, least, most int
	unlimited      bool // by -1
}

// checkSettings refuses the first that is out of range.
func checkSettings(all []setting) error {
	for _, s := range all {
		if s.unlimited && s.n < -1 {
			return usagef("--%s %d: want %d to %d, 0 for the default, or -1 for no limit", s.flag, s.n, s.least, s.most)
		}
		if s.unlimited && s.n == -1 {
			continue
		}
		if err := inRange(s.flag, s.n, s.least, s.most); err != nil {
			return err
		}
	}
	return nil
}

// apply puts the flags into cfg.
func (f *limitFlags) apply(cfg *transport.Config) error {
	err := checkSettings([]setting{
		{"max-connections", f.conns, 1, maxCount, false},
		{"memory-limit", f.memory, minMiB, maxMiB, false},
		{"max-pulls", f.pulls, 1, maxCount, false},
		{"client-connections", f.clientConns, 1, maxCount, true},
		{"client-memory", f.clientMemory, minMiB, maxMiB, true},
		{"client-pulls", f.clientPulls, 1, maxCount, true},
	})
	if err != nil {
		return err
	}
	if len(f.allow) > 0 {
		allow, err := transport.AllowNets(f.allow...)
		if err != nil {
			return usagef("--allow: %s", strings.TrimPrefix(err.Error(), transport.ErrConfig.Error()+": "))
		}
		cfg.Allow = allow
	}
	cfg.MaxConns, cfg.RequestMemory, cfg.MaxPulls = f.conns, int64(f.memory)<<20, f.pulls
	cfg.PerClient = transport.ClientLimits{
		Conns: f.clientConns, Memory: int64(f.clientMemory), Pulls: f.clientPulls,
	}
	if f.clientMemory > 0 {
		cfg.PerClient.Memory <<= 20
	}
	return nil
}

// refusals says what a server has refused; "" if nothing.
func refusals(s transport.Stats) string {
	if s.NotAllowed+s.TooMany+s.SlowPeers == 0 {
		return ""
	}
	return fmt.Sprintf("refused %d connections of clients not allowed and %d beyond the limits, gave %d up as too slow",
		s.NotAllowed, s.TooMany, s.SlowPeers)
}

// allowed is l without the connections of clients that allow does not admit, which are
// closed at once.
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
		_ = c.Close() // nothing was said on it
	}
}
