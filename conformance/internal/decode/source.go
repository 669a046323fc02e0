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
