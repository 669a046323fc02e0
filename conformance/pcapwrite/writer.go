package pcapwrite

import (
	"io"
	"net/netip"
	"sync"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// snapLen is the longest packet written: an IPv4 packet of 65,535 octets behind an Ethernet header.
const snapLen = 14 + 65535

// maxSegment is the largest TCP payload of one packet, in octets.
const maxSegment = 65535 - 20 - 20 - 12 // room for timestamps, which some readers expect to fit

// A Writer writes packets of synthetic connections to one pcap file with nanosecond times. It is
// safe for concurrent use.
type Writer struct {
	// Now is the clock; time.Now unless set before the first connection.
	Now func() time.Time

	mu   sync.Mutex
	pcap *pcapgo.Writer
	buf  gopacket.SerializeBuffer
	last time.Time
	err  error
}

// NewWriter writes the file header to w and returns a Writer over it. It keeps w, which is written
// to with one call per packet (two for its header and body): give it a bufio.Writer when that
// matters, and flush it at the end.
func NewWriter(w io.Writer) (*Writer, error) {
	p := pcapgo.NewWriterNanos(w)
	if err := p.WriteFileHeader(snapLen, layers.LinkTypeEthernet); err != nil {
		return nil, err
	}
	return &Writer{Now: time.Now, pcap: p, buf: gopacket.NewSerializeBuffer()}, nil
}

// Err returns the first error of the underlying writer.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// now returns a time that is not before the packet written last.
func (w *Writer) now() time.Time {
	if t := w.Now(); t.After(w.last) {
		w.last = t
	}
	return w.last
}

// packet writes one packet. The caller holds w.mu.
func (w *Writer) packet(src, dst netip.AddrPort, tcp *layers.TCP, payload []byte) {
	if w.err != nil {
		return
	}
	eth, ip := headers(src.Addr(), dst.Addr())
	tcp.SrcPort, tcp.DstPort = layers.TCPPort(src.Port()), layers.TCPPort(dst.Port())
	if w.err = tcp.SetNetworkLayerForChecksum(ip.(gopacket.NetworkLayer)); w.err != nil {
		return
	}
	opt := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if w.err = gopacket.SerializeLayers(w.buf, opt, eth, ip, tcp, gopacket.Payload(payload)); w.err != nil {
		return
	}
	b := w.buf.Bytes()
	w.err = w.pcap.WritePacket(gopacket.CaptureInfo{Timestamp: w.now(), CaptureLength: len(b), Length: len(b)}, b)
}

// headers returns the Ethernet and IP headers between two addresses; IPv6 unless both are IPv4.
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
