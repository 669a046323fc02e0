package tshark

import (
	"io"
	"net/netip"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/stag-rdma/stag/conformance/internal/decode"
)

// maxSegment is the largest TCP payload of one packet, octets: more than any FPDU.
const maxSegment = 65535 - 20 - 20

// Reframe copies a capture so that every MPA frame is one TCP segment, whatever the segments of the
// original: same ends, same octets, times of the last octets. Streams that are not MPA are cut as they come.
// Holes in the original are holes in the copy. If a connection has the addresses and ports of an earlier
// one, the opener gets another port, since tshark takes the two for one. RoCE is left out.
func Reframe(out io.Writer, in io.Reader) error {
	_, err := reframe(out, in)
	return err
}

// reframe is Reframe, and reports whether there is RPC-over-RDMA.
func reframe(out io.Writer, in io.Reader) (rpc bool, err error) {
	w := pcapgo.NewWriterNanos(out)
	if err := w.WriteFileHeader(maxSegment+74, layers.LinkTypeEthernet); err != nil {
		return false, err
	}
	f := reframer{w: w, buf: gopacket.NewSerializeBuffer(), conns: make(map[int]*conn), used: make(map[[2]netip.AddrPort]bool)}
	for ev, err := range decode.Events(in, nil) {
		if err == nil && ev.Conn.Carrier == decode.CarrierTCP {
			rpc = rpc || ev.Conn.ULP == decode.ULPRPCRDMA
			err = f.event(ev)
		}
		if err != nil {
			return rpc, err
		}
	}
	return rpc, nil
}

// reframer writes the packets.
type reframer struct {
	w     *pcapgo.Writer
	buf   gopacket.SerializeBuffer
	conns map[int]*conn
	used  map[[2]netip.AddrPort]bool
}

// conn is a connection of the copy: what is said by its opener, and to it.
type conn struct {
	ends [2]netip.AddrPort // the opener's first
	next [2]uint32         // sequence numbers, by direction
}

// open returns the connection of ev with ends that no other has had.
func (f *reframer) open(ev *decode.Event) *conn {
	isn := uint32(ev.Conn.ID) * 1_000_003
	c := &conn{ends: [2]netip.AddrPort{ev.Conn.Opener, ev.Conn.Accepter}, next: [2]uint32{isn, ^isn}}
	for f.used[c.ends] {
		c.ends[0] = netip.AddrPortFrom(c.ends[0].Addr(), c.ends[0].Port()+1)
	}
	f.used[c.ends] = true
	return c
}

// event writes the packets of one event.
func (f *reframer) event(ev *decode.Event) error {
	if ev.Kind == decode.KindOpen {
		f.conns[ev.Conn.ID] = f.open(ev)
		return f.handshake(ev, f.conns[ev.Conn.ID])
	}
	c := f.conns[ev.Conn.ID]
	if ev.Kind == decode.KindClose {
		return f.send(ev, c, &layers.TCP{FIN: !ev.Reset, RST: ev.Reset, ACK: true}, nil)
	}
	c.next[ev.Dir] += uint32(ev.Missing)
	for p := ev.Raw; len(p) > 0; {
		n := min(len(p), maxSegment)
		if err := f.send(ev, c, &layers.TCP{PSH: true, ACK: true}, p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// handshake opens a connection, from the opener whoever was seen first.
func (f *reframer) handshake(ev *decode.Event, c *conn) error {
	for _, s := range []struct {
		dir decode.Dir
		tcp layers.TCP
	}{
		{decode.FromOpener, layers.TCP{SYN: true}},
		{decode.FromAccepter, layers.TCP{SYN: true, ACK: true}},
		{decode.FromOpener, layers.TCP{ACK: true}},
	} {
		ev.Dir = s.dir
		if err := f.send(ev, c, &s.tcp, nil); err != nil {
			return err
		}
	}
	return nil
}

// send writes one packet.
func (f *reframer) send(ev *decode.Event, c *conn, tcp *layers.TCP, payload []byte) error {
	src, dst := c.ends[ev.Dir], c.ends[1-ev.Dir]
	tcp.SrcPort, tcp.DstPort = layers.TCPPort(src.Port()), layers.TCPPort(dst.Port())
	tcp.Seq, tcp.Window = c.next[ev.Dir], 65535
	if tcp.ACK {
		tcp.Ack = c.next[1-ev.Dir]
	}
	c.next[ev.Dir] += uint32(len(payload))
	if tcp.SYN || tcp.FIN {
		c.next[ev.Dir]++
	}
	eth, ip := network(src.Addr().Unmap(), dst.Addr().Unmap())
	err := gopacket.SerializeLayers(f.buf, gopacket.SerializeOptions{FixLengths: true}, eth, ip, tcp, gopacket.Payload(payload))
	if err != nil {
		return err
	}
	n := len(f.buf.Bytes())
	return f.w.WritePacket(gopacket.CaptureInfo{Timestamp: ev.Time, CaptureLength: n, Length: n}, f.buf.Bytes())
}

// network returns the headers between two addresses of one family.
func network(src, dst netip.Addr) (eth, ip gopacket.SerializableLayer) {
	e := &layers.Ethernet{SrcMAC: make([]byte, 6), DstMAC: make([]byte, 6), EthernetType: layers.EthernetTypeIPv4}
	if src.Is4() {
		return e, &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolTCP, SrcIP: src.AsSlice(), DstIP: dst.AsSlice()}
	}
	e.EthernetType = layers.EthernetTypeIPv6
	return e, &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: layers.IPProtocolTCP, SrcIP: src.AsSlice(), DstIP: dst.AsSlice()}
}
