package decode

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"time"

	"github.com/gopacket/gopacket/layers"
	"github.com/stag-rdma/stag/internal/list"
)

// tcpSegment is what the stream layer needs to know about a packet. One of RoCE or InfiniBand has addresses without ports,
// and as payload what is from its Base Transport Header up to its Invariant CRC.
type tcpSegment struct {
	src, dst      netip.AddrPort
	seq           uint32
	syn, fin, rst bool
	ack           bool
	acked         uint32 // sequence number that the sender expects, if ack is set
	payload       []byte // lent by the packet
	missing       int    // payload octets that were on the wire but are not in the file (snap length)
}

// carrier is what a packet carries.
type carrier uint8

const (
	carrierOther carrier = iota
	carrierTCP
	carrierRoCEv1
	carrierRoCEv2
	carrierInfiniBand
	carrierUnread   // a link type that this package does not read
	carrierFragment // of an IP datagram that is not whole yet
)

// Numbers of the tcpdump group's registry of link types, of EtherTypes, and of IP protocols.
const (
	linkRawBSD, linkRawOpenBSD, linkERF, linkInfiniBand = 12, 14, 197, 247

	etherIPv4, etherARP, etherIPv6                      = 0x0800, 0x0806, 0x86dd
	etherVLAN, etherVLANService, etherQinQ, etherQinQ92 = 0x8100, 0x88a8, 0x9100, 0x9200
	etherBridged                                        = 0x6558 // an Ethernet frame
	etherMPLS, etherMPLSUpstream, etherPPPoE            = 0x8847, 0x8848, 0x8864
	etherRoCE                                           = 0x8915

	protoHopByHop, protoIPv4, protoTCP, protoUDP, protoIPv6 = 0, 4, 6, 17, 41
	protoRouting, protoFragment, protoGRE, protoAuth        = 43, 44, 47, 51
	protoOptions, protoMPLS                                 = 60, 137

	minEtherType = 0x0600 // IEEE 802.3: less is a length

	portVXLAN, portVXLANGPE, portRoCEv2, portGeneve = 4789, 4790, 4791, 6081
)

// maxLayers bounds the headers in front of TCP.
const maxLayers = 32

// packetParser finds the TCP segment in a packet, whatever it is wrapped in.
type packetParser struct{ fragments fragments }

// parse returns the innermost TCP segment of pkt, if that is what it carries. It peels one header after the other. Each
// says what follows it, by an EtherType or by an IP protocol, and is longer than nothing; those that know how long the
// rest is cut off what a link has added. A header that is not whole ends it: carrierOther.
func (p *packetParser) parse(pkt *Packet) (seg tcpSegment, what carrier) {
	b, cut := pkt.Data, max(0, pkt.Len-len(pkt.Data))
	kind := linkKind(pkt.Link, &b)
	switch {
	case pkt.Link == linkInfiniBand:
		return infiniBand(b, cut), carrierInfiniBand
	case pkt.Link == linkERF && len(b) > 16 && b[8]&0x7f == 21: // a record of InfiniBand
		more := b[8]
		for b = b[16:]; more&0x80 != 0 && len(b) > 8; b = b[8:] { // extensions of its head
			more = b[0]
		}
		return infiniBand(b, cut), carrierInfiniBand
	case kind < 0:
		return seg, carrierUnread
	}
	be := binary.BigEndian
	var src, dst netip.Addr
	for range maxLayers {
		proto := -1 // set by those that an IP protocol follows
		switch {
		case kind == etherBridged && len(b) >= 14:
			kind, b = int(be.Uint16(b[12:])), b[14:]
		case (kind == etherVLAN || kind == etherVLANService || kind == etherQinQ || kind == etherQinQ92) && len(b) >= 4:
			kind, b = int(be.Uint16(b[2:])), b[4:]
		case (kind == etherMPLS || kind == etherMPLSUpstream) && len(b) >= 5:
			last := b[2]&1 != 0 // RFC 3032 Section 2.1
			if b = b[4:]; last {
				kind = behindLabels(&b)
			}
		case kind == etherPPPoE && len(b) >= 8 && b[0] == 0x11 && b[1] == 0: // RFC 2516 Section 4, session data
			n := int(be.Uint16(b[4:])) + 6
			kind, b = behindPPP(b[6:8]), b[8:max(8, min(n, len(b)))]
		case kind > 0 && kind < minEtherType && len(b) >= 8 && string(b[:6]) == "\xaa\xaa\x03\x00\x00\x00": // a length, and RFC 1042
			kind, b = int(be.Uint16(b[6:])), b[8:]
		case kind == etherIPv4 && len(b) >= 20 && b[0]>>4 == 4:
			head, total := int(b[0]&15)*4, int(be.Uint16(b[2:]))
			if total == 0 { // left to the network card, which was to cut the datagram into many
				total = len(b) + cut
			}
			if head < 20 || head > min(total, len(b)) {
				return seg, carrierOther
			}
			src, dst, proto = netip.AddrFrom4([4]byte(b[12:])), netip.AddrFrom4([4]byte(b[16:])), int(b[9])
			at, id := be.Uint16(b[6:]), uint32(be.Uint16(b[4:]))
			b, cut = within(b[head:], total-head, cut)
			if at&0x3fff != 0 { // RFC 791 Section 3.1: more fragments, or an offset
				if cut > 0 {
					return seg, carrierFragment
				}
				key := datagram{src, dst, id, proto}
				if b, proto = p.fragments.add(key, pkt, proto, int(at&0x1fff)*8, at&0x2000 != 0, b); b == nil {
					return seg, carrierFragment
				}
			}
		case kind == etherIPv6 && len(b) >= 40 && b[0]>>4 == 6:
			src, dst, proto = netip.AddrFrom16([16]byte(b[8:])).Unmap(), netip.AddrFrom16([16]byte(b[24:])).Unmap(), int(b[6])
			total := int(be.Uint16(b[4:]))
			if total == 0 { // as above, or a jumbogram
				total = len(b) - 40 + cut
			}
			b, cut = within(b[40:], total, cut)
		case kind == etherRoCE:
			return global(b, cut), carrierRoCEv1
		default:
			return seg, carrierOther
		}
		for extension(proto) && len(b) >= 8 { // RFC 8200 Section 4
			n := (int(b[1]) + 1) * 8
			if proto == protoAuth {
				n = (int(b[1]) + 2) * 4
			}
			if proto == protoFragment {
				at, id := be.Uint16(b[2:]), be.Uint32(b[4:])
				proto, b = int(b[0]), b[8:]
				if at&^6 == 0 { // all of it
					continue
				}
				if cut > 0 {
					return seg, carrierFragment
				}
				key := datagram{src, dst, id, protoFragment}
				if b, proto = p.fragments.add(key, pkt, proto, int(at&^7), at&1 != 0, b); b == nil {
					return seg, carrierFragment
				}
				continue
			}
			if n > len(b) {
				return seg, carrierOther
			}
			proto, b = int(b[0]), b[n:]
		}
		switch {
		case proto < 0:
		case proto == protoTCP && len(b) >= 20:
			head := int(b[12]>>4) * 4
			if head < 20 || head > len(b)+cut {
				return seg, carrierOther
			}
			if head > len(b) { // of its options the file lacks some, which say nothing here
				cut -= head - len(b)
				head = len(b)
			}
			flags := b[13]
			return tcpSegment{
				src: netip.AddrPortFrom(src, be.Uint16(b)), dst: netip.AddrPortFrom(dst, be.Uint16(b[2:])),
				seq: be.Uint32(b[4:]), acked: be.Uint32(b[8:]),
				fin: flags&1 != 0, syn: flags&2 != 0, rst: flags&4 != 0, ack: flags&16 != 0,
				payload: b[head:], missing: cut,
			}, carrierTCP
		case proto == protoUDP && len(b) >= 16: // with a header of the tunnel
			switch port, t := be.Uint16(b[2:]), b[8:]; {
			case port == portRoCEv2:
				b, cut = within(t, max(0, int(be.Uint16(b[4:]))-8), cut)
				return transport(src, dst, b, cut), carrierRoCEv2
			case port == portVXLAN && t[0]&8 != 0: // RFC 7348 Section 5: the network is given
				kind, b = etherBridged, t[8:]
			case port == portVXLANGPE && t[0]&12 == 12 && t[3] == 1: // draft-ietf-nvo3-vxlan-gpe-13 Section 3.1
				kind, b = etherIPv4, t[8:]
			case port == portVXLANGPE && t[0]&12 == 12 && t[3] == 2:
				kind, b = etherIPv6, t[8:]
			case port == portVXLANGPE && t[0]&8 != 0:
				kind, b = etherBridged, t[8:]
			case port == portGeneve && t[0]>>6 == 0 && 8+int(t[0]&63)*4 <= len(t): // RFC 8926 Section 3.4
				kind, b = int(be.Uint16(t[2:])), t[8+int(t[0]&63)*4:]
			default:
				return seg, carrierOther
			}
		case proto == protoUDP && len(b) >= 4 && be.Uint16(b[2:]) == portRoCEv2:
			return seg, carrierRoCEv2
		case proto == protoGRE && len(b) >= 4 && b[0]&0x4f == 0 && b[1]&7 == 0: // RFC 2784, 2890: no routes, version 0
			n := 4
			for _, field := range []byte{0x80, 0x20, 0x10} { // checksum, key, sequence number
				if b[0]&field != 0 {
					n += 4
				}
			}
			if n > len(b) {
				return seg, carrierOther
			}
			kind, b = int(be.Uint16(b[2:])), b[n:]
		case proto == protoIPv4:
			kind = etherIPv4
		case proto == protoIPv6:
			kind = etherIPv6
		case proto == protoMPLS:
			kind = etherMPLS
		default:
			return seg, carrierOther
		}
	}
	return seg, carrierOther
}

// infiniBand reads a packet from its Local Route Header on: link, what follows, target, length in words, source
// (InfiniBand Architecture Specification, Volume 1, Section 7.7).
func infiniBand(b []byte, cut int) (seg tcpSegment) {
	if len(b) < 8 {
		return seg
	}
	lid := func(at int) netip.Addr { return netip.AddrFrom16([16]byte{0xfe, 0x80, 14: b[at], 15: b[at+1]}) }
	rest, cut := within(b[8:], max(0, int(binary.BigEndian.Uint16(b[4:])&0x7ff)*4-8), cut)
	switch next := b[1] & 3; {
	case next == 2:
		return transport(lid(6), lid(2), rest, cut)
	case next == 3 && len(rest) >= 40: // a Global Route Header: perhaps not in all packets of a connection
		return transport(lid(6), lid(2), rest[40:], cut)
	}
	return seg // of no transport of InfiniBand
}

// global reads a packet from its Global Route Header on, which is laid out as the header of IPv6 (Section 8.3).
func global(b []byte, cut int) (seg tcpSegment) {
	if len(b) < 40 {
		return seg
	}
	rest, cut := within(b[40:], int(binary.BigEndian.Uint16(b[4:])), cut)
	return transport(netip.AddrFrom16([16]byte(b[8:])).Unmap(), netip.AddrFrom16([16]byte(b[24:])).Unmap(), rest, cut)
}

// transport reads a packet from its Base Transport Header on.
func transport(src, dst netip.Addr, b []byte, cut int) tcpSegment {
	n := max(0, len(b)+cut-icrcLen)
	return tcpSegment{
		src: netip.AddrPortFrom(src, 0), dst: netip.AddrPortFrom(dst, 0),
		payload: b[:min(n, len(b))], missing: max(0, n-len(b)),
	}
}

// within cuts b to the n octets that a header says follow it. It returns how many of these the file lacks: no more than
// the cut that its record tells.
func within(b []byte, n, cut int) ([]byte, int) {
	if n <= len(b) {
		return b[:n], 0
	}
	return b, min(n-len(b), cut)
}

// extension reports whether proto is a header of IPv6 with another one behind it.
func extension(proto int) bool {
	switch proto {
	case protoHopByHop, protoRouting, protoFragment, protoAuth, protoOptions:
		return true
	}
	return false
}

// linkKind takes the link header off b and returns the EtherType of what follows, -1 for a link type that is not read.
func linkKind(link layers.LinkType, b *[]byte) int {
	head, at := 0, -1 // of the link header: its length, and where its EtherType is
	switch link {
	case layers.LinkTypeEthernet:
		return etherBridged
	case layers.LinkTypeLinuxSLL:
		head, at = 16, 14
	case layers.LinkTypeLinuxSLL2:
		head, at = 20, 0
	case layers.LinkTypeC_HDLC:
		head, at = 4, 2
	case layers.LinkTypePPP, layers.LinkTypePPP_HDLC:
		all := bytes.TrimPrefix(*b, []byte{0xff, 0x03}) // RFC 1662 Section 3.1
		if len(all) < 3 {
			return 0
		}
		*b = all[2:]
		return behindPPP(all)
	case layers.LinkTypeNull, layers.LinkTypeLoop: // an address family, which every system numbers anew
		head = 4
	case layers.LinkTypeIPv4, layers.LinkTypeIPv6, layers.LinkTypeRaw, linkRawBSD, linkRawOpenBSD:
	default:
		return -1
	}
	all := *b
	if len(all) <= head {
		return 0
	}
	*b = all[head:]
	switch {
	case at >= 0:
		return int(binary.BigEndian.Uint16(all[at:]))
	case all[head]>>4 == 6:
		return etherIPv6
	}
	return etherIPv4
}

// behindPPP says what follows a protocol number of PPP.
func behindPPP(b []byte) int {
	switch binary.BigEndian.Uint16(b) {
	case 0x0021:
		return etherIPv4
	case 0x0057:
		return etherIPv6
	}
	return 0
}

// behindLabels says what follows a stack of MPLS labels, which do not: IP by its first four bits (RFC 4928 Section 3), or
// the Ethernet frame of a pseudowire, before which it cuts off a control word (RFC 4448 Section 4.6).
func behindLabels(b *[]byte) int {
	frame := *b
	switch {
	case frame[0]>>4 == 4:
		return etherIPv4
	case frame[0]>>4 == 6:
		return etherIPv6
	case frame[0]>>4 == 0 && len(frame) >= 18 && !known(frame[12:]) && known(frame[16:]): // no address begins so
		*b = frame[4:]
	}
	return etherBridged
}

// known reports whether b begins with an EtherType that a frame is likely to have.
func known(b []byte) bool {
	switch binary.BigEndian.Uint16(b) {
	case etherIPv4, etherARP, etherIPv6, etherVLAN, etherVLANService, etherQinQ, etherMPLS, etherPPPoE, etherRoCE:
		return true
	}
	return false
}

// count adds a packet.
func (s *CaptureStats) count(c carrier, link layers.LinkType) {
	switch c {
	case carrierTCP:
		s.TCP++
	case carrierRoCEv1, carrierRoCEv2, carrierInfiniBand:
		s.RoCE++
	case carrierUnread:
		if s.Unread++; s.Unread == 1 {
			s.UnreadLink = int(link)
		}
	case carrierFragment:
		s.Fragments++
	case carrierOther:
	}
}

// fragments puts IP datagrams together (RFC 791 Section 3.2, RFC 8200 Section 4.5). A datagram that is not whole in the
// end, or of which two fragments overlap, is never seen: then octets of its TCP connection are missing, as if the packet
// were not in the capture. Captured twice is no overlap.
type fragments struct {
	open  map[datagram]*partial
	order list.List[partial] // the oldest first
	held  int                // octets, with earlyCost for each datagram and each fragment
	whole []byte             // the last that was put together, which is lent
}

// datagram is what all fragments of one have in common. IPv6 has the protocol in the first one only.
type datagram struct {
	src, dst netip.Addr
	id       uint32
	proto    int
}

type partial struct {
	key   datagram
	since time.Time
	node  list.Node[partial]
	parts []fragment // in the order of their offsets
	have  int        // octets of parts
	total int        // -1: the last fragment was not seen
	proto int
	bad   bool // two overlap, or do not agree about the length
}

type fragment struct {
	at int
	b  []byte
}

const (
	maxFragments = 4 << 20 // octets held; the datagram that was begun first goes first
	// fragmentLife is when an identification may come again for another datagram: RFC 8200 Section 4.5, RFC 1122 Section
	// 3.3.2.
	fragmentLife = time.Minute
	maxDatagram  = 1 << 16
)

// add takes a copy of the fragment b at offset at; more: others follow it. It returns the datagram that is whole now, and
// its protocol, or nil.
func (f *fragments) add(key datagram, pkt *Packet, proto, at int, more bool, b []byte) ([]byte, int) {
	if f.open == nil {
		f.open = make(map[datagram]*partial)
	}
	d := f.open[key]
	if d != nil && pkt.Time.Sub(d.since) > fragmentLife {
		f.drop(d)
		d = nil
	}
	if d == nil {
		d = &partial{key: key, since: pkt.Time, total: -1}
		f.open[key] = d
		f.order.Push(&d.node, d)
		f.held += earlyCost
	}
	if at == 0 {
		d.proto = proto
	}
	end := at + len(b)
	i, found := slices.BinarySearchFunc(d.parts, at, func(p fragment, at int) int { return p.at - at })
	if found && bytes.Equal(d.parts[i].b, b) {
		return nil, 0
	}
	switch {
	case len(b) == 0, more && len(b)%8 != 0, end > maxDatagram, d.total >= 0 && (!more || end > d.total), found,
		i > 0 && d.parts[i-1].at+len(d.parts[i-1].b) > at, i < len(d.parts) && (end > d.parts[i].at || !more):
		d.bad = true
	}
	if d.bad { // kept without its octets, so that what follows does not make another of it
		f.held -= d.have
		for i := range d.parts {
			d.have, d.parts[i].b = 0, nil
		}
		return nil, 0
	}
	d.parts = slices.Insert(d.parts, i, fragment{at, bytes.Clone(b)})
	d.have += len(b)
	f.held += len(b) + earlyCost
	if !more {
		d.total = end
	}
	if d.have == d.total {
		f.whole = f.whole[:0]
		for _, p := range d.parts {
			f.whole = append(f.whole, p.b...)
		}
		f.drop(d)
		return f.whole, d.proto
	}
	for f.held > maxFragments {
		f.drop(f.order.First())
	}
	return nil, 0
}

// drop forgets a datagram.
func (f *fragments) drop(d *partial) {
	f.held -= d.have + earlyCost*(1+len(d.parts))
	d.node.Leave()
	delete(f.open, d.key)
}
