package rpcbind

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/stag-rdma/stag/xdr"
)

// The protocol (RFC 1833 Section 2.1).
const (
	Program = 100000
	Port    = 111

	version3 = 3
	version4 = 4

	procNull        = 0
	procSet         = 1
	procUnset       = 2
	procGetAddr     = 3
	procDump        = 4
	procGetVersAddr = 9 // version 4 only
)

// Netids of transports (RFC 5665 Section 5.1.2, RFC 5666 Section 12).
const (
	NetTCP   = "tcp"
	NetTCP6  = "tcp6"
	NetUDP   = "udp"
	NetUDP6  = "udp6"
	NetRDMA  = "rdma"
	NetRDMA6 = "rdma6"
)

// maxString bounds each string of an entry, in octets.
// Choice: RFC 1833 has no limit; Linux allows 58 for an address and 32 for an owner.
const maxString = 256

// Entry is one service on one transport: rpcb of RFC 1833 Section 2.1.
//
//	4    program
//	4    version
//	...  netid, universal address, owner: strings
type Entry struct {
	Prog, Vers uint32
	Netid      string
	Addr       string // universal address, see Universal
	Owner      string // who may unset it; rpcbind fills it in for local callers
}

// appendTo appends the entry's XDR to b.
func (e *Entry) appendTo(b []byte) []byte {
	b = xdr.AppendUint32(xdr.AppendUint32(b, e.Prog), e.Vers)
	b = xdr.AppendString(b, e.Netid)
	b = xdr.AppendString(b, e.Addr)
	return xdr.AppendString(b, e.Owner)
}

// parse reads an entry.
func (e *Entry) parse(d *xdr.Decoder) {
	e.Prog, e.Vers = d.Uint32(), d.Uint32()
	e.Netid, e.Addr, e.Owner = d.String(maxString), d.String(maxString), d.String(maxString)
}

// Universal returns the universal address of an IP address and port (RFC 5665 Section
// 5.2.3.3): the host, then the port's two octets in decimal, separated by dots.
func Universal(a netip.AddrPort) string {
	p := a.Port()
	return fmt.Sprintf("%s.%d.%d", a.Addr().Unmap().WithZone(""), p>>8, p&0xff)
}

// parseUniversal parses a universal address.
func parseUniversal(s string) (netip.AddrPort, error) {
	host, low, ok1 := cutLast(s)
	host, high, ok2 := cutLast(host)
	hi, err1 := strconv.ParseUint(high, 10, 8)
	lo, err2 := strconv.ParseUint(low, 10, 8)
	addr, err3 := netip.ParseAddr(host)
	if !ok1 || !ok2 || err1 != nil || err2 != nil || err3 != nil {
		return netip.AddrPort{}, fmt.Errorf("rpcbind: %q is not a universal address", s)
	}
	return netip.AddrPortFrom(addr, uint16(hi<<8|lo)), nil
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, '.')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// NetidOf returns the netid of a service that listens at a, over RDMA, TCP or UDP, or "" if a is not an IP
// address.
func NetidOf(a net.Addr, rdma bool) string {
	if u, ok := a.(*net.UDPAddr); ok {
		if u.AddrPort().Addr().Unmap().Is4() {
			return NetUDP
		}
		return NetUDP6
	}
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return ""
	}
	v4 := t.AddrPort().Addr().Unmap().Is4()
	switch {
	case rdma && v4:
		return NetRDMA
	case rdma:
		return NetRDMA6
	case v4:
		return NetTCP
	}
	return NetTCP6
}
