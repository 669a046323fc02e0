package transport

import (
	"math"
	"net"
	"net/netip"

	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/internal/setting"
	"github.com/stag-rdma/stag/transport/internal/admit"
	"github.com/stag-rdma/stag/transport/internal/execute"
)

// The defaults of [ClientLimits] are fractions of the whole.
const (
	clientConnsPart   = 8 // as in the duplicate request cache
	clientMemoryPart  = 2
	clientPullsPart   = 4
	clientExposedPart = 2
)

// ClientLimits restricts what one client may use of a server or listener. A client is an address without
// its port: clients behind one address share its limits.
//
// Zero means the default, a negative value no limit. The defaults do not apply to loopback
// addresses and to peers without an IP address (pipes, Unix sockets), which may stand for any
// number of clients. Limits that are set apply to them too.
type ClientLimits struct {
	// Conns is the number of connections; further ones are refused. If zero, an eighth
	// of Limits.Conns.
	Conns int
	// Memory is the number of octets of Limits.Memory. Calls beyond it wait for others
	// of the same client. If zero, half of it; at least MaxPayload.
	Memory int64
	// Pulls is the number of calls whose chunks are being pulled. Further ones wait.
	// If zero, a quarter of Limits.Pulls.
	Pulls int
	// Exposed is the number of octets of RFC5666.ExposedMemory; a reply beyond it is refused
	// with ERR_CHUNK. If zero, half of it.
	Exposed int64
}

// AllowNets returns a [Limits].Allow that admits the clients of the given networks, in
// CIDR form or as single addresses: "192.0.2.0/24", "2001:db8::1". Peers without an IP
// address are not admitted. IPv4 clients of an IPv6 socket count as IPv4.
func AllowNets(nets ...string) (func(net.Addr) bool, error) {
	list := make([]netip.Prefix, 0, len(nets))
	for _, s := range nets {
		p, err := parseNet(s)
		if err != nil {
			return nil, ofTransport(setting.Error("%q is not a network: write 192.0.2.0/24, 2001:db8::/32 or an address", s))
		}
		list = append(list, p)
	}
	return func(a net.Addr) bool {
		ip := peeraddr.IP(a) // the zero Addr is in no network
		for _, p := range list {
			if p.Contains(ip.WithZone("")) {
				return true
			}
		}
		return false
	}, nil
}

// parseNet parses a prefix or a single address.
func parseNet(s string) (netip.Prefix, error) {
	if p, err := netip.ParsePrefix(s); err == nil {
		if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
		}
		return p.Masked(), nil
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Prefix{}, err
	}
	a = a.Unmap().WithZone("")
	return netip.PrefixFrom(a, a.BitLen()), nil
}

// clientLimits returns the limits for a peer.
func (c *Config) clientLimits(a net.Addr) ClientLimits {
	local := peeraddr.Many(peeraddr.Host(a))
	l := c.Limits.PerClient
	return ClientLimits{
		Conns:   limitOr(l.Conns, max(c.Limits.Conns/clientConnsPart, 1), local, noCount),
		Memory:  limitOr(l.Memory, max(c.Limits.Memory/clientMemoryPart, int64(c.MaxPayload)), local, noLimit),
		Pulls:   limitOr(l.Pulls, max(c.Limits.Pulls/clientPullsPart, 1), local, noCount),
		Exposed: limitOr(l.Exposed, max(c.rfc5666().ExposedMemory/clientExposedPart, 1), local, noLimit),
	}
}

// noLimit and noCount are far above anything that is counted, but small enough for sums.
const (
	noLimit int64 = math.MaxInt64 >> 2
	noCount int   = math.MaxInt32 >> 2
)

// limitOr returns the limit that a setting means.
func limitOr[N int | int64](set, def N, local bool, none N) N {
	switch {
	case set > 0:
		return set
	case set < 0 || local:
		return none
	}
	return def
}

// gate returns the settings of a gate.
func (c *Config) gate() admit.Config {
	return admit.Config{
		Allow: c.Limits.Allow,
		Limits: func(a net.Addr) admit.Limits {
			l := c.clientLimits(a)
			return admit.Limits{Conns: l.Conns, Limit: l.Memory, Pulls: l.Pulls, Exposed: l.Exposed}
		},
		Conns: c.Limits.Conns, Pulls: c.Limits.Pulls, Memory: c.Limits.Memory,
		Credits: c.Credits, InlineRecv: c.InlineRecv, MaxPayload: c.MaxPayload,
		Pull: c.Timeouts.Pull, Startup: c.Startup.Timeout, Logger: c.Logger,
	}
}

// duplicates returns the limits of a duplicate request cache.
func (c *Config) duplicates() execute.Limits {
	return execute.Limits{Entries: c.Duplicates.Entries, Memory: c.Duplicates.Memory, Time: c.Duplicates.Time, Owner: c.Duplicates.Owner}
}
