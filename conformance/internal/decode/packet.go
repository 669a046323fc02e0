package decode

import (
	"net/netip"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// tcpSegment is what the stream layer needs to know about a packet.
type tcpSegment struct {
	src, dst      netip.AddrPort
	seq           uint32
	syn, fin, rst bool
	ack           bool
	acked         uint32 // sequence number that the sender expects, if ack is set
	payload       []byte // lent by the packet
	missing       int    // payload octets that were on the wire but are not in the file (snap length)
}

// packetParser decodes a packet down to its TCP payload. It reuses the layer structs, so a packet costs no
// allocation. gopacket turns a panic of its decoders into an error, which here means "not TCP".
type packetParser struct {
	eth     layers.Ethernet
	vlan    layers.Dot1Q
	loop    layers.Loopback
	sll     layers.LinuxSLL
	sll2    layers.LinuxSLL2
	ip4     layers.IPv4
	ip6     layers.IPv6
	ext     layers.IPv6ExtensionSkipper
	tcp     layers.TCP
	payload gopacket.Payload

	parsers map[gopacket.LayerType]*gopacket.DecodingLayerParser
	found   []gopacket.LayerType
}

func newPacketParser() *packetParser {
	return &packetParser{parsers: make(map[gopacket.LayerType]*gopacket.DecodingLayerParser)}
}

// parser returns the parser for packets that begin with layer first.
func (p *packetParser) parser(first gopacket.LayerType) *gopacket.DecodingLayerParser {
	dl := p.parsers[first]
	if dl == nil {
		dl = gopacket.NewDecodingLayerParser(first, &p.eth, &p.vlan, &p.loop, &p.sll, &p.sll2,
			&p.ip4, &p.ip6, &p.ext, &p.tcp, &p.payload)
		dl.IgnoreUnsupported = true
		p.parsers[first] = dl
	}
	return dl
}

// firstLayer maps a link type to the layer its packets begin with; ok is false for link types
// this package does not read.
func firstLayer(link layers.LinkType, data []byte) (first gopacket.LayerType, ok bool) {
	switch link {
	case layers.LinkTypeEthernet:
		return layers.LayerTypeEthernet, true
	case layers.LinkTypeNull, layers.LinkTypeLoop:
		return layers.LayerTypeLoopback, true
	case layers.LinkTypeLinuxSLL:
		return layers.LayerTypeLinuxSLL, true
	case layers.LinkTypeLinuxSLL2:
		return layers.LayerTypeLinuxSLL2, true
	case layers.LinkTypeIPv4:
		return layers.LayerTypeIPv4, true
	case layers.LinkTypeIPv6:
		return layers.LayerTypeIPv6, true
	case layers.LinkTypeRaw, 12, 14: // 12 and 14: what BSD systems write for raw IP
		if len(data) > 0 && data[0]>>4 == 6 {
			return layers.LayerTypeIPv6, true
		}
		return layers.LayerTypeIPv4, true
	default:
		return 0, false
	}
}

// parse returns the TCP segment of pkt; ok is false if there is none that can be read whole: other
// protocols, IP fragments, a TCP header cut by the snap length.
func (p *packetParser) parse(pkt *Packet) (seg tcpSegment, ok bool) {
	first, ok := firstLayer(pkt.Link, pkt.Data)
	if !ok {
		return seg, false
	}
	dl := p.parser(first)
	p.found = p.found[:0]
	if err := dl.DecodeLayers(pkt.Data, &p.found); err != nil {
		return seg, false
	}
	var src, dst netip.Addr
	for _, l := range p.found {
		switch l {
		case layers.LayerTypeIPv4:
			src, _ = netip.AddrFromSlice(p.ip4.SrcIP)
			dst, _ = netip.AddrFromSlice(p.ip4.DstIP)
		case layers.LayerTypeIPv6:
			src, _ = netip.AddrFromSlice(p.ip6.SrcIP)
			dst, _ = netip.AddrFromSlice(p.ip6.DstIP)
		case layers.LayerTypeTCP:
			return p.segment(pkt, src, dst, dl.Truncated), true
		}
	}
	return seg, false
}

func (p *packetParser) segment(pkt *Packet, src, dst netip.Addr, truncated bool) tcpSegment {
	t := &p.tcp
	seg := tcpSegment{
		src: netip.AddrPortFrom(src.Unmap(), uint16(t.SrcPort)),
		dst: netip.AddrPortFrom(dst.Unmap(), uint16(t.DstPort)),
		seq: t.Seq, syn: t.SYN, fin: t.FIN, rst: t.RST, ack: t.ACK, acked: t.Ack,
		payload: t.Payload,
	}
	if truncated {
		seg.missing = max(0, pkt.Len-len(pkt.Data))
	}
	return seg
}
