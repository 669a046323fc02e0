package capture

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
)

// maxSegment is the largest TCP payload of one packet, in octets: the longest IPv4 packet less its
// headers, and less the 12 octets of timestamps, which some readers expect to fit.
const maxSegment = 65535 - ip4Len - tcpLen - 12

// Lengths of headers in octets, and the largest length of all of them together.
const (
	ethernetLen = 14
	ip4Len      = 20
	ip6Len      = 40
	tcpLen      = 20
	maxHeaders  = ethernetLen + ip6Len + tcpLen + len(synOptions)
)

// Control bits of TCP (RFC 9293 Section 3.1).
const (
	tcpFIN uint8 = 1 << 0
	tcpSYN uint8 = 1 << 1
	tcpPSH uint8 = 1 << 3
	tcpACK uint8 = 1 << 4
)

// synOptions are the options of a SYN: MSS 1460, no operation, window scale.
const synOptions = "\x02\x04\x05\xb4" + "\x01" + "\x03\x03" + string(rune(windowScale))

// segment is a TCP segment without its payload. The window is always 65,535.
type segment struct {
	seq, ack uint32
	flags    uint8
}

// appendHeaders appends the Ethernet, IP and TCP headers of s, with the checksums of a packet in
// which payload follows. The packet is IPv6 unless both addresses are IPv4.
func (s *segment) appendHeaders(b []byte, src, dst netip.AddrPort, payload []byte) []byte {
	options := ""
	if s.flags&tcpSYN != 0 {
		options = synOptions
	}
	n := tcpLen + len(options) + len(payload)
	b = append(b, 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1) // locally administered addresses
	b, pseudo := appendIP(b, src.Addr().Unmap(), dst.Addr().Unmap(), n)
	at := len(b)
	b = binary.BigEndian.AppendUint16(b, src.Port())
	b = binary.BigEndian.AppendUint16(b, dst.Port())
	b = binary.BigEndian.AppendUint32(b, s.seq)
	b = binary.BigEndian.AppendUint32(b, s.ack)
	b = append(b, byte(tcpLen+len(options))/4<<4, s.flags, 0xff, 0xff, 0, 0, 0, 0)
	b = append(b, options...)
	sum := add(add(pseudo, b[at:]), payload) // the headers have an even length
	binary.BigEndian.PutUint16(b[at+16:], fold(sum))
	return b
}

// appendIP appends the EtherType, and the IP header for n octets of TCP. pseudo is the checksum of
// TCP's pseudo-header (RFC 9293 Section 3.1, RFC 8200 Section 8.1).
func appendIP(b []byte, src, dst netip.Addr, n int) (_ []byte, pseudo uint64) {
	const protocolTCP, hops = 6, 64
	if src.Is4() && dst.Is4() {
		b = append(b, 0x08, 0x00)
		at := len(b)
		b = append(b, 0x45, 0)
		b = binary.BigEndian.AppendUint16(b, uint16(ip4Len+n))
		b = append(b, 0, 0, 0, 0, hops, protocolTCP, 0, 0)
		b = append(append(b, src.AsSlice()...), dst.AsSlice()...)
		binary.BigEndian.PutUint16(b[at+10:], fold(add(0, b[at:])))
		return b, add(uint64(protocolTCP+n), b[at+12:])
	}
	b = append(b, 0x86, 0xdd, 0x60, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(n))
	b = append(b, protocolTCP, hops)
	at := len(b)
	s, d := src.As16(), dst.As16()
	b = append(append(b, s[:]...), d[:]...)
	return b, add(uint64(protocolTCP+n), b[at:])
}

// add adds the octets of b, in words of 16 bits, to a checksum (RFC 1071). It adds
// 8 octets at a time, since a carry may be added anywhere.
func add(sum uint64, b []byte) uint64 {
	var carry uint64
	for ; len(b) >= 8; b = b[8:] {
		sum, carry = bits.Add64(sum, binary.BigEndian.Uint64(b), carry)
	}
	var last [8]byte
	copy(last[:], b)
	sum, carry = bits.Add64(sum, binary.BigEndian.Uint64(last[:]), carry)
	return sum + carry
}

// fold returns the 16 bits of a checksum as they stand in a header.
func fold(sum uint64) uint16 {
	for sum>>16 != 0 {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
