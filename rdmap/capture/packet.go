package capture

import (
	"net/netip"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// maxSegment is the largest TCP payload of one packet, in octets: the longest IPv4
// packet less its headers, and room for timestamps, which some readers expect to fit.
const maxSegment = 65535 - 20 - 20 - 12

// packet writes one packet.
func (w *Writer) packet(at time.Time, src, dst netip.AddrPort, tcp *layers.TCP, payload []byte) {
	if w.Err() != nil {
		return
	}
	eth, ip := headers(src.Addr(), dst.Addr())
	tcp.SrcPort, tcp.DstPort = layers.TCPPort(src.Port()), layers.TCPPort(dst.Port())
	_ = tcp.SetNetworkLayerForChecksum(ip.(gopacket.NetworkLayer)) // both kinds of headers can do it
	opt := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(w.buf, opt, eth, ip, tcp, gopacket.Payload(payload)); err != nil {
		w.fail(err)
		return
	}
	b := w.buf.Bytes()
	w.fail(w.ng.WritePacket(gopacket.CaptureInfo{Timestamp: at, CaptureLength: len(b), Length: len(b)}, b))
}

// headers returns the Ethernet and IP headers between two addresses; IPv6 unless both
// are IPv4.
func headers(src, dst netip.Addr) (eth, ip gopacket.SerializableLayer) {
	e := &layers.Ethernet{
		SrcMAC: []byte{2, 0, 0, 0, 0, 1}, DstMAC: []byte{2, 0, 0, 0, 0, 2},
		EthernetType: layers.EthernetTypeIPv4,
	}
	src, dst = src.Unmap(), dst.Unmap()
	if src.Is4() && dst.Is4() {
		return e, &layers.IPv4{
			Version: 4, TTL: 64, Protocol: layers.IPProtocolTCP,
			SrcIP: src.AsSlice(), DstIP: dst.AsSlice(),
		}
	}
	e.EthernetType = layers.EthernetTypeIPv6
	s, d := src.As16(), dst.As16()
	return e, &layers.IPv6{
		Version: 6, HopLimit: 64, NextHeader: layers.IPProtocolTCP,
		SrcIP: s[:], DstIP: d[:],
	}
}
