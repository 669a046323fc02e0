package perftest

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
)

// ErrProtocol is wrapped by the errors of Dial, Server and ParseDest if the peer violated perftest's
// protocol.
var ErrProtocol = errors.New("perftest: not perftest's protocol")

// DestLen is the size of a Dest on the wire, octets.
const DestLen = 56

// Dest is what the sides tell each other about a connection and a buffer, in network byte order and laid out
// as in C on a 64-bit machine:
//
//	octets 0-3    LID, of InfiniBand     octets 16-19  RKey, the buffer's STag
//	octets 4-7    OutReads, the ORD      octets 20-23  ignored
//	octets 8-11   QPN                    octets 24-31  VAddr, its tagged offset
//	octets 12-15  PSN, of InfiniBand     octets 32-55  GID and SRQN, of InfiniBand
type Dest struct {
	OutReads uint32
	QPN      uint32
	RKey     region.STag
	VAddr    uint64
}

// Append appends the 56 octets of d to b.
func (d Dest) Append(b []byte) []byte {
	var p [DestLen]byte
	binary.BigEndian.PutUint32(p[4:], d.OutReads)
	binary.BigEndian.PutUint32(p[8:], d.QPN)
	binary.BigEndian.PutUint32(p[16:], uint32(d.RKey))
	binary.BigEndian.PutUint64(p[24:], d.VAddr)
	return append(b, p[:]...)
}

// ParseDest reads a Dest. The error wraps ErrProtocol: b does not have 56 octets.
func ParseDest(b []byte) (Dest, error) {
	if len(b) != DestLen {
		return Dest{}, fmt.Errorf("%w: a message of %d octets, want %d", ErrProtocol, len(b), DestLen)
	}
	return Dest{
		OutReads: binary.BigEndian.Uint32(b[4:]),
		QPN:      binary.BigEndian.Uint32(b[8:]),
		RKey:     region.STag(binary.BigEndian.Uint32(b[16:])),
		VAddr:    binary.BigEndian.Uint64(b[24:]),
	}, nil
}

// Test is one of perftest's tests.
type Test uint8

// The tests.
const (
	WriteBW Test = iota // ib_write_bw: the client writes
	ReadBW              // ib_read_bw: the client reads
	SendLat             // ib_send_lat: each side sends in turn
)

var testNames = [...]string{"write_bw", "read_bw", "send_lat"}

// String returns perftest's name without its "ib_".
func (t Test) String() string {
	if int(t) < len(testNames) {
		return testNames[t]
	}
	return fmt.Sprintf("Test(%d)", uint8(t))
}

// exchanges returns how often the sides exchange their Dest before the test.
func (t Test) exchanges() int {
	if t == SendLat {
		return 4
	}
	return 3
}

// MaxSize is the largest message, octets.
const MaxSize = 64 << 10

// depth is the largest number of Reads in flight: siw allows no more.
const depth = 128

// config returns the settings of a connection. Control messages and send_lat need a few
// receives.
func config(crc rdmap.CRCMode, reads int) *rdmap.Config {
	if reads == 0 {
		reads = -1
	}
	return &rdmap.Config{Startup: rdmap.Startup{CRC: crc, IRD: reads, ORD: reads, Plain: true}, Receives: rdmap.Receives{Size: MaxSize, Count: 4}}
}
