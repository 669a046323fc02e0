package page

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"github.com/stag-rdma/stag/conformance/internal/decode"
)

const (
	maxComments = 64      // of one packet
	maxComment  = 4 << 10 // octets
)

// Comments returns the comments for the packet with a number, from 1 as Wireshark counts; nil for most
// packets.
type Comments func(frame int) []string

// Copy copies the packets of the capture in r, which [decode.Packets] reads, to w as pcapng, with comments. Their octets, times
// and link types are unchanged; a packet without a time, of a Simple Packet Block, has time 0. What else is in a pcapng file
// is left out. Invalid UTF-8 in a comment is replaced, comments are cut at 4 KiB, and a packet gets at most 64 of them. If r is
// damaged, the packets before the damage are written and the error returned.
func Copy(w io.Writer, r io.Reader, comments Comments) error {
	var out *pcapgo.NgWriter
	ids := make(map[layers.LinkType]int) // of the interfaces
	add := func(link layers.LinkType) (err error) {
		of := pcapgo.NgInterface{LinkType: link}
		if out != nil {
			ids[link], err = out.AddInterface(of)
			return err
		}
		out, err = pcapgo.NewNgWriterInterface(w, of, pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{Application: "stag"}})
		ids[link] = 0
		return err
	}
	var failed error
	for pkt, err := range decode.Packets(r) {
		if err != nil {
			failed = fmt.Errorf("annotate: %w", err)
			break
		}
		if _, ok := ids[pkt.Link]; !ok {
			if err := add(pkt.Link); err != nil {
				return err
			}
		}
		if pkt.Time.IsZero() {
			pkt.Time = time.Unix(0, 0)
		}
		ci := gopacket.CaptureInfo{Timestamp: pkt.Time, CaptureLength: len(pkt.Data), Length: max(pkt.Len, len(pkt.Data)), InterfaceIndex: ids[pkt.Link]}
		if err := out.WritePacketWithOptions(ci, pkt.Data, pcapgo.NgPacketOptions{Comments: clean(comments(pkt.Frame))}); err != nil {
			return err
		}
	}
	if out == nil && failed == nil { // a capture without packets is one
		failed = add(layers.LinkTypeEthernet)
	}
	if out == nil {
		return failed
	}
	return errors.Join(failed, out.Flush())
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
