package decode

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// errDamaged reports a file whose lengths make no sense.
var errDamaged = errors.New("damaged file")

const (
	// maxPacket bounds a packet in octets. Lengths are claims: what is longer is not a packet.
	maxPacket = 64 << 20
	// maxInterfaces bounds the interfaces of a section of a pcapng file, which are all remembered.
	maxInterfaces = 1 << 16
)

// Types of pcapng blocks that are read, draft-ietf-opsawg-pcapng. Each block is
//
//	off 0 type u32, 4 length u32, 8 body padded to 32 bits, length u32 again
const (
	ngInterfaceBlock = 1
	ngOldBlock       = 2 // Packet Block, obsolete
	ngSimpleBlock    = 3
	ngEnhancedBlock  = 6
	ngOrder          = 0x1a2b3c4d
)

// ngReader reads a pcapng file. That of package pcapgo trusts lengths: options that are longer than their block
// hide the packets behind it, and names and interfaces are kept without a bound.
type ngReader struct {
	r      *bufio.Reader
	order  binary.ByteOrder
	ifaces []ngInterface
	body   bytes.Buffer
}

// ngInterface is what a packet's interface says about it.
type ngInterface struct {
	link   layers.LinkType
	snap   uint32
	second uint64 // units of time
	offset int64  // in seconds
}

func (r *ngReader) link(ci gopacket.CaptureInfo) layers.LinkType {
	return r.ifaces[ci.InterfaceIndex].link
}

// begin reads the first section header.
func (r *ngReader) begin() error {
	_, body, err := r.block()
	if err != nil {
		return err
	}
	return r.section(body)
}

// ZeroCopyReadPacketData returns the next packet.
func (r *ngReader) ZeroCopyReadPacketData() ([]byte, gopacket.CaptureInfo, error) {
	for {
		kind, body, err := r.block()
		if err != nil {
			return nil, gopacket.CaptureInfo{}, err
		}
		switch kind {
		case pcapngMagic:
			err = r.section(body)
		case ngInterfaceBlock:
			err = r.describe(body)
		case ngEnhancedBlock, ngOldBlock, ngSimpleBlock:
			return r.packet(kind, body)
		}
		if err != nil {
			return nil, gopacket.CaptureInfo{}, err
		}
	}
}

// block returns the next block, without a body if it is of a type that is not read.
func (r *ngReader) block() (kind uint32, body []byte, err error) {
	var head [8]byte
	if _, err := io.ReadFull(r.r, head[:]); err != nil {
		return 0, nil, err // io.EOF between blocks
	}
	if binary.BigEndian.Uint32(head[:]) == pcapngMagic { // the same in both orders
		if err := r.ordered(); err != nil {
			return 0, nil, err
		}
	}
	kind, n := r.order.Uint32(head[:]), r.order.Uint32(head[4:])
	if n < 12 || n%4 != 0 {
		return 0, nil, fmt.Errorf("%w: a block of %d octets", errDamaged, n)
	}
	r.body.Reset()
	switch kind {
	case pcapngMagic, ngInterfaceBlock, ngEnhancedBlock, ngOldBlock, ngSimpleBlock:
		if n > maxPacket {
			return 0, nil, fmt.Errorf("%w: a block of %d octets", errDamaged, n)
		}
		_, err = io.CopyN(&r.body, r.r, int64(n-12)) // grows by what is there
	default:
		_, err = io.CopyN(io.Discard, r.r, int64(n-12))
	}
	if err == nil {
		_, err = io.ReadFull(r.r, head[:4])
	}
	switch {
	case errors.Is(err, io.EOF):
		return 0, nil, io.ErrUnexpectedEOF
	case err != nil:
		return 0, nil, err
	case r.order.Uint32(head[:]) != n:
		return 0, nil, fmt.Errorf("%w: a block of %d octets whose end says %d", errDamaged, n, r.order.Uint32(head[:]))
	}
	return kind, r.body.Bytes(), nil
}

// ordered finds the byte order of the section that begins.
func (r *ngReader) ordered() error {
	magic, err := r.r.Peek(4)
	switch {
	case err != nil:
		return io.ErrUnexpectedEOF
	case binary.BigEndian.Uint32(magic) == ngOrder:
		r.order = binary.BigEndian
	case binary.LittleEndian.Uint32(magic) == ngOrder:
		r.order = binary.LittleEndian
	default:
		return fmt.Errorf("%w: byte-order magic %x", errDamaged, magic)
	}
	return nil
}

// section takes a section header: magic, version u16 u16, length u64. It ends the section before it.
func (r *ngReader) section(b []byte) error {
	if len(b) < 16 {
		return fmt.Errorf("%w: a section header of %d octets", errDamaged, len(b))
	}
	if major, minor := r.order.Uint16(b[4:]), r.order.Uint16(b[6:]); major != 1 {
		return fmt.Errorf("version %d.%d of pcapng", major, minor)
	}
	r.ifaces = r.ifaces[:0]
	return nil
}

// describe takes an interface: link type u16, 0 u16, snap length u32, options.
func (r *ngReader) describe(b []byte) error {
	if len(b) < 8 || len(r.ifaces) == maxInterfaces {
		return fmt.Errorf("%w: interface %d, of %d octets", errDamaged, len(r.ifaces), len(b))
	}
	i := ngInterface{link: layers.LinkType(r.order.Uint16(b)), snap: r.order.Uint32(b[4:]), second: 1e6}
	for b = b[8:]; len(b) >= 4; {
		code, n := r.order.Uint16(b), int(r.order.Uint16(b[2:]))
		if code == 0 { // the end
			break
		}
		if b = b[4:]; (n+3)&^3 > len(b) {
			return fmt.Errorf("%w: an option of %d octets in %d", errDamaged, n, len(b))
		}
		switch {
		case code == 9 && n == 1: // if_tsresol
			if i.second = units(b[0]); i.second == 0 {
				return fmt.Errorf("%w: time resolution %#x", errDamaged, b[0])
			}
		case code == 14 && n == 8: // if_tsoffset
			i.offset = int64(r.order.Uint64(b))
		}
		b = b[(n+3)&^3:]
	}
	r.ifaces = append(r.ifaces, i)
	return nil
}

// units returns the units of a second: a power of 2 or 10. 0: more than 64 bits have.
func units(resolution byte) uint64 {
	e := resolution & 0x7f
	if resolution > e {
		return 1 << e
	}
	if e > 19 {
		return 0
	}
	n := uint64(1)
	for range e {
		n *= 10
	}
	return n
}

// packet takes a packet. An Enhanced Packet Block is
//
//	off 0 interface u32, 4 time u64, 12 captured u32, 16 on the wire u32, 20 data
//
// an old one has two numbers of 16 bits first, and a simple one 4 octets, the length on the wire, before its data.
func (r *ngReader) packet(kind uint32, b []byte) ([]byte, gopacket.CaptureInfo, error) {
	var ci gopacket.CaptureInfo
	head := 20
	if kind == ngSimpleBlock {
		head = 4
	}
	if len(b) < head {
		return nil, ci, fmt.Errorf("%w: a packet's block of %d octets", errDamaged, len(b))
	}
	data := b[head:]
	captured := r.order.Uint32(b[head-4:])
	wire := captured
	switch kind {
	case ngOldBlock:
		ci.InterfaceIndex, captured = int(r.order.Uint16(b)), r.order.Uint32(b[12:])
	case ngEnhancedBlock:
		ci.InterfaceIndex, captured = int(r.order.Uint32(b)), r.order.Uint32(b[12:])
	}
	if ci.InterfaceIndex >= len(r.ifaces) {
		return nil, ci, fmt.Errorf("%w: interface %d of %d", errDamaged, ci.InterfaceIndex, len(r.ifaces))
	}
	i := r.ifaces[ci.InterfaceIndex]
	if kind == ngSimpleBlock {
		if i.snap > 0 {
			captured = min(captured, i.snap)
		}
	} else {
		at := uint64(r.order.Uint32(b[4:]))<<32 | uint64(r.order.Uint32(b[8:]))
		hi, lo := bits.Mul64(at%i.second, 1e9)
		ns, _ := bits.Div64(hi, lo, i.second)
		ci.Timestamp = time.Unix(int64(at/i.second)+i.offset, int64(ns)).UTC()
	}
	ci.CaptureLength, ci.Length = int(captured), int(wire)
	if int64(captured) > int64(len(data)) || captured > wire {
		return nil, ci, fmt.Errorf("%w: a packet of %d octets, %d captured, in %d", errDamaged, wire, captured, len(data))
	}
	return slices.Clip(data[:captured]), ci, nil
}
