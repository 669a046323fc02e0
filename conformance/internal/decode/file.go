package decode

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/bits"
	"slices"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// ErrNotCapture reports an input that is neither pcap nor pcapng.
var ErrNotCapture = errors.New("decode: not a pcap or pcapng file")

// Packet is one packet of a capture file, as it was captured.
type Packet struct {
	Frame int             // number of the packet in its file, from 1, as Wireshark counts
	Time  time.Time       // when it was captured; the zero time if the file does not say
	Link  layers.LinkType // what Data begins with
	Len   int             // octets of the packet on the wire, ≥ len(Data)
	Data  []byte          // the captured octets, lent until the next packet is asked for
}

const (
	pcapngMagic = 0x0a0d0d0a // the type of the Section Header Block that every pcapng file begins with
	gzipMagic   = 0x1f8b     // RFC 1952 Section 2.3.1
)

// compressed are the formats that are not read.
var compressed = []struct{ magic, unpack string }{
	{"\xfd7zX", "xz -d"}, {"BZh", "bzip2 -d"}, {"\x28\xb5\x2f\xfd", "zstd -d"}, {"\x04\x22\x4d\x18", "lz4 -d"},
}

// packetReader is what the readers of both formats have in common.
type packetReader interface {
	ZeroCopyReadPacketData() ([]byte, gopacket.CaptureInfo, error)
}

// Packets yields the packets of a pcap or pcapng stream, also gzip-compressed, in file order. It borrows r
// until the loop ends. A damaged or truncated file yields one last pair with a non-nil error; the packets
// before it are good. An empty input is [ErrNotCapture].
func Packets(r io.Reader) iter.Seq2[Packet, error] {
	return func(yield func(Packet, error) bool) {
		pr, link, err := openCapture(r)
		if err != nil {
			yield(Packet{}, err)
			return
		}
		for frame := 1; ; frame++ {
			data, ci, err := pr.ZeroCopyReadPacketData()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(Packet{}, fmt.Errorf("decode: packet %d: %w", frame, err))
				return
			}
			if !yield(Packet{Frame: frame, Time: ci.Timestamp, Link: link(ci), Len: ci.Length, Data: data}, nil) {
				return
			}
		}
	}
}

// openCapture looks at the first four octets and returns the reader for that format, with a function that
// returns a packet's link type: pcapng may mix several.
func openCapture(r io.Reader) (packetReader, func(gopacket.CaptureInfo) layers.LinkType, error) {
	br := bufio.NewReader(r)
	magic, err := br.Peek(4)
	if err != nil {
		return nil, nil, ErrNotCapture
	}
	if binary.BigEndian.Uint16(magic) == gzipMagic {
		z, err := gzip.NewReader(br)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %w", ErrNotCapture, err)
		}
		br = bufio.NewReader(z)
		if magic, err = br.Peek(4); err != nil {
			return nil, nil, fmt.Errorf("%w: %w", ErrNotCapture, err)
		}
	}
	for _, z := range compressed {
		if bytes.HasPrefix(magic, []byte(z.magic)) {
			return nil, nil, fmt.Errorf("%w: it is compressed: unpack it with %s FILE", ErrNotCapture, z.unpack)
		}
	}
	if binary.BigEndian.Uint32(magic) != pcapngMagic {
		p, err := openPcap(br)
		if err != nil {
			return nil, nil, err
		}
		return p, func(gopacket.CaptureInfo) layers.LinkType { return p.link }, nil
	}
	ng := &ngReader{r: br}
	if err := ng.begin(); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrNotCapture, err)
	}
	return ng, ng.link, nil
}

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
