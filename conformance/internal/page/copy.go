package page

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gopacket/gopacket/pcapgo"
)

// ErrDamaged reports a pcapng file that ends inside a block, or whose block lengths make no sense.
var ErrDamaged = errors.New("annotate: damaged pcapng file")

const (
	maxComments = 64       // of one packet
	maxComment  = 4 << 10  // octets
	maxPacket   = 64 << 20 // octets of a packet's block that can be commented
)

// Comments returns the comments for the packet with a number, from 1 as Wireshark counts; nil for most
// packets.
type Comments func(frame int) []string

// Copy copies the capture in r to w as pcapng, with comments. Invalid UTF-8 in a comment is replaced,
// comments are cut at 4 KiB, and a packet gets at most 64 of them. If r is damaged, the part before the
// damage is written and the error returned.
//
// A pcapng file keeps every block as it is, unknown ones too; packets that get a comment have one more
// option, opt_comment, and section headers no longer say how long their sections are. A pcap file becomes
// pcapng with one interface, of the same link type and snap length. Packets, their times and their
// interfaces are unchanged.
//
// The one exception: a Simple Packet Block has no room for options, so one that gets a comment becomes
// an Enhanced Packet Block of interface 0 with time 0.
func Copy(w io.Writer, r io.Reader, comments Comments) error {
	in, out := bufio.NewReaderSize(r, 64<<10), bufio.NewWriterSize(w, 64<<10)
	magic, err := in.Peek(4)
	switch {
	case err != nil:
		return fmt.Errorf("annotate: no capture: %w", err)
	case binary.BigEndian.Uint32(magic) == blockSection:
		c := &copier{in: in, out: out, comments: comments}
		err = c.blocks()
	default:
		err = fromPcap(out, in, comments)
	}
	return errors.Join(err, out.Flush())
}

// fromPcap converts a pcap file to pcapng.
func fromPcap(w io.Writer, r io.Reader, comments Comments) error {
	in, err := pcapgo.NewReader(r)
	if err != nil {
		return fmt.Errorf("annotate: no capture: %w", err)
	}
	out, err := pcapgo.NewNgWriterInterface(w, pcapgo.NgInterface{
		LinkType: in.LinkType(), SnapLength: in.Snaplen(), TimestampResolution: 9,
	}, pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{Application: "stag"}})
	if err != nil {
		return err
	}
	in.SetSnaplen(min(in.Snaplen(), maxPacket)) // a packet's length is checked against it
	for frame := 1; ; frame++ {
		data, ci, err := in.ZeroCopyReadPacketData()
		if errors.Is(err, io.EOF) {
			return out.Flush()
		}
		if err != nil {
			return errors.Join(fmt.Errorf("annotate: packet %d: %w", frame, err), out.Flush())
		}
		ci.InterfaceIndex, ci.Length = 0, max(ci.Length, ci.CaptureLength)
		opt := pcapgo.NgPacketOptions{Comments: clean(comments(frame))}
		if err := out.WritePacketWithOptions(ci, data, opt); err != nil {
			return err
		}
	}
}

// clean makes comments fit to be written.
func clean(all []string) []string {
	all = all[:min(len(all), maxComments)]
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = strings.ToValidUTF8(s[:min(len(s), maxComment)], "\ufffd")
	}
	return out
}

// Types of blocks of a pcapng file, draft-ietf-opsawg-pcapng. Each block is
//
//	off 0 type u32, 4 length u32, 8 body padded to 32 bits, length u32 again
//
// with numbers in the byte order that the section header's magic shows.
const (
	blockSection  = 0x0a0d0d0a
	blockOld      = 2 // Packet Block, obsolete
	blockSimple   = 3
	blockEnhanced = 6

	byteOrder  = 0x1a2b3c4d
	optComment = 1
)

const (
	headLen     = 8  // octets: type, length
	frameLen    = 12 // of an empty block
	sectionLen  = 16 // octets of a section's body before the options: magic, version, length
	simpleLen   = 4  // octets of a Simple Packet Block before the data: length on the wire
	enhancedLen = 20 // octets of an Enhanced or old Packet Block before the data: interface, time, two lengths
)

// copier copies the blocks of a pcapng file.
type copier struct {
	in       *bufio.Reader
	out      *bufio.Writer
	comments Comments
	order    binary.ByteOrder
	frame    int
}

func (c *copier) blocks() error {
	for {
		if _, err := c.in.Peek(1); errors.Is(err, io.EOF) {
			return nil
		}
		if err := c.block(); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				err = fmt.Errorf("%w: it ends inside a block after packet %d", ErrDamaged, c.frame)
			}
			return err
		}
	}
}

// block copies the next block.
func (c *copier) block() error {
	head, err := c.in.Peek(headLen + 4)
	if err != nil {
		return err
	}
	section := binary.BigEndian.Uint32(head) == blockSection // the same in both orders
	if section {
		if c.order, err = orderOf(head[headLen:]); err != nil {
			return err
		}
	}
	kind, n := c.order.Uint32(head), c.order.Uint32(head[4:])
	if n < frameLen || n%4 != 0 {
		return fmt.Errorf("%w: a block of %d octets after packet %d", ErrDamaged, n, c.frame)
	}
	if section {
		return c.section(n)
	}
	if kind == blockEnhanced || kind == blockOld || kind == blockSimple {
		c.frame++
		if list := clean(c.comments(c.frame)); len(list) > 0 {
			return c.packet(kind, n, list)
		}
	}
	_, err = io.CopyN(c.out, c.in, int64(n))
	return err
}

// orderOf returns the byte order that a section's magic shows.
func orderOf(magic []byte) (binary.ByteOrder, error) {
	switch {
	case binary.BigEndian.Uint32(magic) == byteOrder:
		return binary.BigEndian, nil
	case binary.LittleEndian.Uint32(magic) == byteOrder:
		return binary.LittleEndian, nil
	}
	return nil, fmt.Errorf("%w: byte-order magic %x", ErrDamaged, magic)
}

// section copies a section header, with the length of the section unknown (-1): it grows.
func (c *copier) section(n uint32) error {
	if n < frameLen+sectionLen {
		return fmt.Errorf("%w: a section header of %d octets", ErrDamaged, n)
	}
	b := make([]byte, headLen+sectionLen)
	if _, err := io.ReadFull(c.in, b); err != nil {
		return err
	}
	c.order.PutUint64(b[headLen+8:], ^uint64(0))
	if _, err := c.out.Write(b); err != nil {
		return err
	}
	_, err := io.CopyN(c.out, c.in, int64(n)-int64(len(b)))
	return err
}

// packet copies a packet of n octets with comments.
func (c *copier) packet(kind, n uint32, comments []string) error {
	if n > maxPacket {
		return fmt.Errorf("%w: packet %d is a block of %d octets", ErrDamaged, c.frame, n)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(c.in, b); err != nil {
		return err
	}
	body := b[headLen : n-4]
	if kind == blockSimple && len(body) >= simpleLen {
		kind, body = blockEnhanced, c.enhanced(body)
	}
	at, ok := c.options(body)
	if !ok {
		return fmt.Errorf("%w: packet %d is longer than its block", ErrDamaged, c.frame)
	}
	return c.write(kind, slices.Concat(body[:at], c.appendComments(nil, comments, len(body) == at), body[at:]))
}

// options returns where the options of an Enhanced Packet Block begin.
func (c *copier) options(body []byte) (at int, ok bool) {
	if len(body) < enhancedLen {
		return 0, false
	}
	captured := uint64(c.order.Uint32(body[12:]))
	end := enhancedLen + (captured+3)/4*4
	return int(end), end <= uint64(len(body))
}

// enhanced makes the body of an Enhanced Packet Block from that of a Simple one: octets on the wire u32,
// data.
func (c *copier) enhanced(body []byte) []byte {
	data := body[simpleLen:]
	wire := c.order.Uint32(body)
	b := make([]byte, enhancedLen, enhancedLen+len(data))
	c.order.PutUint32(b[12:], min(wire, uint32(len(data))))
	c.order.PutUint32(b[16:], wire)
	return append(b, data...)
}

// appendComments appends options, and the end-of-options mark if they are the only ones.
func (c *copier) appendComments(b []byte, comments []string, only bool) []byte {
	for _, s := range comments {
		b = c.appendOption(b, optComment, s)
	}
	if only {
		b = append(b, 0, 0, 0, 0)
	}
	return b
}

func (c *copier) appendOption(b []byte, code uint16, value string) []byte {
	var head [4]byte
	c.order.PutUint16(head[:], code)
	c.order.PutUint16(head[2:], uint16(len(value)))
	b = append(append(b, head[:]...), value...)
	return append(b, make([]byte, -len(value)&3)...)
}

// write writes a block.
func (c *copier) write(kind uint32, body []byte) error {
	var head [headLen]byte
	c.order.PutUint32(head[:], kind)
	c.order.PutUint32(head[4:], uint32(len(body)+frameLen))
	for _, b := range [][]byte{head[:], body, head[4:]} {
		if _, err := c.out.Write(b); err != nil {
			return err
		}
	}
	return nil
}
