package rping

import (
	"encoding/binary"
	"fmt"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
)

// InfoLen is the size of an Info on the wire, octets.
const InfoLen = 16

// MaxSize is the largest ping, octets; the limit of rping is the same.
const MaxSize = 64 << 10

// Info is the content of every Send, in network byte order:
//
//	octets 0-7    Addr  tagged offset of the buffer
//	octets 8-11   RKey  its STag
//	octets 12-15  Len   octets
//
// Those of the server are zero: they only mean "go ahead".
type Info struct {
	Addr uint64
	RKey region.STag
	Len  uint32
}

// Append appends the 16 octets of i to b.
func (i Info) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, i.Addr)
	b = binary.BigEndian.AppendUint32(b, uint32(i.RKey))
	return binary.BigEndian.AppendUint32(b, i.Len)
}

// ParseInfo reads an Info. The error wraps ErrProtocol: b does not have 16 octets.
func ParseInfo(b []byte) (Info, error) {
	if len(b) != InfoLen {
		return Info{}, fmt.Errorf("%w: a message of %d octets, want %d", ErrProtocol, len(b), InfoLen)
	}
	return Info{
		Addr: binary.BigEndian.Uint64(b),
		RKey: region.STag(binary.BigEndian.Uint32(b[8:])),
		Len:  binary.BigEndian.Uint32(b[12:]),
	}, nil
}

// Config returns the settings of a connection on which rping runs: IRD and ORD 1 as
// rping asks for them, messages of 16 octets, no private data.
func Config(crc rdmap.CRCMode) *rdmap.Config {
	return &rdmap.Config{Startup: rdmap.Startup{CRC: crc, IRD: 1, ORD: 1, Plain: true}, Receives: rdmap.Receives{Size: InfoLen, Count: 4}}
}
