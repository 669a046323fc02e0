package decode

import (
	"encoding/binary"

	"github.com/gopacket/gopacket/layers"
)

// carrier is what a packet without a readable TCP segment carries.
type carrier uint8

const (
	carrierOther carrier = iota
	carrierRoCEv1
	carrierRoCEv2
	carrierInfiniBand
	carrierUnread
)

const (
	linkInfiniBand = 247 // LINKTYPE_INFINIBAND of the tcpdump group's registry
	etherRoCE      = 0x8915
	portRoCEv2     = 4791
)

// foreign says what a packet is that parse has just refused. It reads the layers that parse has decoded.
func (p *packetParser) foreign(pkt *Packet) carrier {
	if pkt.Link == linkInfiniBand {
		return carrierInfiniBand
	}
	if _, ok := firstLayer(pkt.Link, pkt.Data); !ok {
		return carrierUnread
	}
	if len(p.found) == 0 {
		return carrierOther
	}
	switch p.found[len(p.found)-1] {
	case layers.LayerTypeEthernet:
		return etherCarrier(p.eth.EthernetType)
	case layers.LayerTypeDot1Q:
		return etherCarrier(p.vlan.Type)
	case layers.LayerTypeLinuxSLL:
		return etherCarrier(p.sll.EthernetType)
	case layers.LayerTypeLinuxSLL2:
		return etherCarrier(p.sll2.ProtocolType)
	case layers.LayerTypeIPv4:
		return udpCarrier(p.ip4.Protocol, p.ip4.Payload)
	case layers.LayerTypeIPv6:
		return udpCarrier(p.ip6.NextHeader, p.ip6.Payload)
	}
	return carrierOther
}

func etherCarrier(t layers.EthernetType) carrier {
	if t == etherRoCE {
		return carrierRoCEv1
	}
	return carrierOther
}

// udpCarrier looks for the destination port, which RoCE v2 fixes (the source port is entropy).
func udpCarrier(proto layers.IPProtocol, payload []byte) carrier {
	if proto == layers.IPProtocolUDP && len(payload) >= 4 && binary.BigEndian.Uint16(payload[2:]) == portRoCEv2 {
		return carrierRoCEv2
	}
	return carrierOther
}

// count adds a packet that was not decoded.
func (s *CaptureStats) count(c carrier, link layers.LinkType) {
	switch c {
	case carrierRoCEv1:
		s.RoCEv1++
	case carrierRoCEv2:
		s.RoCEv2++
	case carrierInfiniBand:
		s.InfiniBand++
	case carrierUnread:
		if s.Unread++; s.Unread == 1 {
			s.UnreadLink = int(link)
		}
	case carrierOther:
	}
}
