package page

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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
