package decode

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// pcapReader reads a pcap file as libpcap does: draft-ietf-opsawg-pcap, and what old programs have written. That of
// package pcapgo takes version 2.4 only, and no record longer than its packet.
//
//	off 0 magic u32, 4 version u16 u16, 8 zone i32, 12 precision u32, 16 snap length u32, 20 link type u32
//	each record: off 0 seconds u32, 4 fraction u32, 8 captured octets u32, 12 octets of the packet u32
type pcapReader struct {
	r     *bufio.Reader
	order binary.ByteOrder
	unit  time.Duration // of the fraction
	head  int           // octets of the head of a record
	minor uint16
	link  layers.LinkType
	h     [24]byte
	lim   io.LimitedReader // of a record: kept, for it would be made anew for each
	body  bytes.Buffer
}

func openPcap(r *bufio.Reader) (*pcapReader, error) {
	var h [24]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotCapture, err)
	}
	p := &pcapReader{r: r, order: binary.BigEndian, unit: time.Microsecond, head: 16}
	if h[0] != 0xa1 {
		p.order = binary.LittleEndian
	}
	switch magic := p.order.Uint32(h[:]); magic {
	case 0xa1b2c3d4:
	case 0xa1b23c4d:
		p.unit = time.Nanosecond
	case 0xa1b2cd34: // of a patch to libpcap in 1998: interface, protocol and type behind each record's head
		p.head = 24
	default:
		return nil, fmt.Errorf("%w: it begins with % x", ErrNotCapture, h[:4])
	}
	major := p.order.Uint16(h[4:])
	p.minor = p.order.Uint16(h[6:])
	if major != 2 || p.minor > 4 {
		return nil, fmt.Errorf("%w: pcap of version %d.%d, want 2.0 to 2.4", ErrNotCapture, major, p.minor)
	}
	p.link = layers.LinkType(p.order.Uint32(h[20:]) & 0xffff) // above are the octets of a check sequence
	return p, nil
}

// ZeroCopyReadPacketData returns the next packet.
func (p *pcapReader) ZeroCopyReadPacketData() (data []byte, ci gopacket.CaptureInfo, err error) {
	h := &p.h
	if _, err := io.ReadFull(p.r, h[:p.head]); err != nil {
		return nil, ci, err // io.EOF between records
	}
	n, whole := p.order.Uint32(h[8:]), p.order.Uint32(h[12:])
	if p.minor < 3 || p.minor == 3 && n > whole { // they changed places in 2.3, not in all programs
		n, whole = whole, n
	}
	if n > maxPacket {
		return nil, ci, fmt.Errorf("%w: a record of %d octets", errDamaged, n)
	}
	ci.Timestamp = time.Unix(int64(p.order.Uint32(h[:])), int64(p.order.Uint32(h[4:]))*int64(p.unit)).UTC()
	ci.CaptureLength, ci.Length = int(n), int(max(n, whole)) // some devices count their own headers only once
	p.body.Reset()
	p.lim = io.LimitedReader{R: p.r, N: int64(n)}
	_, err = p.body.ReadFrom(&p.lim) // grows by what is there
	if err == nil && p.lim.N > 0 {
		err = io.ErrUnexpectedEOF
	}
	return p.body.Bytes(), ci, err
}
