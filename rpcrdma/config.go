package rpcrdma

import (
	"encoding/binary"
	"math"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/internal/setting"
	"github.com/stag-rdma/stag/xdr"
)

// PrivateDataSize is the size of the RFC 8797 block, octets.
const PrivateDataSize = 8

const (
	privateMagic   = 0xf6ab0e18
	privateVersion = 1
	flagR          = 0x01
	sizeUnit       = 1024
	maxSize        = 256 * sizeUnit
)

// PrivateData is what a side tells when the connection is made (RFC 8797
// Section 4), in the private data of the MPA Request and Reply:
//
//	octets  field
//	4       0xf6ab0e18
//	1       version, 1
//	1       flags: 0x01 remote invalidation supported; others sent as 0, ignored
//	1       send size: octets/1024 - 1
//	1       receive size: the same
//
// Sizes are 1024 to 262144 octets, multiples of 1024.
type PrivateData struct {
	RemoteInvalidate bool // this side's memory may be invalidated remotely
	SendSize         int  // largest Send this side makes
	RecvSize         int  // largest Send this side receives
}

// Append appends the 8 octets. Sizes are rounded down to a multiple of 1024, so
// that no more is promised than is there; below 1024 means 1024.
//
// Choice: put it first in the private data; Linux looks at offset 0 only.
func (p PrivateData) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, privateMagic)
	var flags byte
	if p.RemoteInvalidate {
		flags = flagR
	}
	return append(b, privateVersion, flags, sizeCode(p.SendSize), sizeCode(p.RecvSize))
}

// sizeCode encodes a size, rounded down and clipped.
func sizeCode(n int) byte {
	return byte(min(max(n, sizeUnit), maxSize)/sizeUnit - 1)
}

func sizeOf(code byte) int { return (int(code) + 1) * sizeUnit }

// ParsePrivateData finds the block at any octet offset of b (RFC 8797 Section
// 5). Without a whole block of version 1 it returns false and what that means:
// no remote invalidation, 1024 octets each way. It borrows b.
func ParsePrivateData(b []byte) (PrivateData, bool) {
	for ; len(b) >= PrivateDataSize; b = b[1:] {
		if binary.BigEndian.Uint32(b) != privateMagic {
			continue
		}
		if b[4] != privateVersion {
			break // the identifier settles where the block is
		}
		return PrivateData{
			RemoteInvalidate: b[5]&flagR != 0,
			SendSize:         sizeOf(b[6]),
			RecvSize:         sizeOf(b[7]),
		}, true
	}
	return PrivateData{SendSize: DefaultInline, RecvSize: DefaultInline}, false
}

// Inline returns the inline thresholds of a connection as seen from the side
// that said p, in octets, header included: the largest Send it may make, and
// the largest it will get (RFC 8797 Section 4.2). For a client they are the
// call and the reply threshold. Sizes of p count as Append encodes them, since
// the peer knows no others.
func (p PrivateData) Inline(peer PrivateData) (send, recv int) {
	own, other := p.normal(), peer.normal()
	return min(own.SendSize, other.RecvSize), min(other.SendSize, own.RecvSize)
}

// normal returns p with the sizes that its encoding has.
func (p PrivateData) normal() PrivateData {
	p.SendSize, p.RecvSize = sizeOf(sizeCode(p.SendSize)), sizeOf(sizeCode(p.RecvSize))
	return p
}

// MayInvalidate reports whether the responder of a connection may answer with Send
// with Invalidate: only when both sides said so (RFC 8797 Section 4.1).
func (p PrivateData) MayInvalidate(peer PrivateData) bool {
	return p.RemoteInvalidate && peer.RemoteInvalidate
}

// The Connection Configuration Protocol (RFC 5666 Section 6): an RPC program of one procedure,
// the first call of a connection. Each end gives its numbers from its own point of view.
const (
	ConfigProgram = 100417 // CONFIG_RDMA_PROG
	ConfigVersion = 1      // VERS1
	ConfigProc    = 1      // CONF_RDMA
)

// ConfigArgs are the arguments of CONF_RDMA, 12 octets.
type ConfigArgs struct {
	MaxCall  uint32 // maxcall_sendsize: largest Send the client makes, octets
	MaxReply uint32 // maxreply_sendsize: largest Send it takes
	MaxRead  uint32 // maxrdmaread: RDMA Reads it serves at a time; 0: none
}

// Append appends the three words.
func (a ConfigArgs) Append(b []byte) []byte {
	return xdr.AppendUint32(xdr.AppendUint32(xdr.AppendUint32(b, a.MaxCall), a.MaxReply), a.MaxRead)
}

// ParseConfigArgs reads the three words; more or fewer are an *xdr.DecodeError,
// to be answered with GARBAGE_ARGS. It borrows args.
func ParseConfigArgs(args []byte) (ConfigArgs, error) {
	d := xdr.NewDecoder(args)
	a := ConfigArgs{d.Uint32(), d.Uint32(), d.Uint32()}
	return a, d.End()
}

// ConfigReply are the results of CONF_RDMA, 12 octets.
type ConfigReply struct {
	MaxCall uint32 // maxcall_sendsize: largest Send the server takes, octets
	Align   uint32 // align: of its receive buffers; see PadsTo
	MaxRead uint32 // maxrdmaread: RDMA Reads it serves at a time; 0: none
}

// Append appends the three words.
func (r ConfigReply) Append(b []byte) []byte {
	return ConfigArgs{r.MaxCall, r.Align, r.MaxRead}.Append(b)
}

// ParseConfigReply reads the three words; more or fewer are an *xdr.DecodeError.
func ParseConfigReply(results []byte) (ConfigReply, error) {
	a, err := ParseConfigArgs(results)
	return ConfigReply{a.MaxCall, a.MaxReply, a.MaxRead}, err
}

// PadsTo reports whether align is a valid alignment for RDMA_MSGP: a power of two from 4 to 2^30.
// Choice: any other align in the Connection Configuration Protocol, including 0 and 1, means
// "send no RDMA_MSGP".
func PadsTo(align uint32) bool { return align >= 4 && align <= 1<<30 && align&(align-1) == 0 }

// ConfigInline returns the size in octets, at least 1024, of the largest Send of a side that
// sends at most own, if the other side accepts limit according to the Connection Configuration
// Protocol. agreed is the size agreed by RFC 8797, or 0.
//
// Choice: if both are known, the Connection Configuration Protocol can only lower the size.
func ConfigInline(own int, limit uint32, agreed int) int {
	if agreed > 0 {
		own = min(own, agreed)
	}
	return max(int(min(uint64(own), uint64(limit))), DefaultInline)
}

// Ranges of settings. The smallest Send takes any RDMA_ERROR (28 octets), and the header of a message without chunks
// (28) with the call header of RPC (40).
const (
	minSend    = 68
	maxSend    = 1 << 20 // four times what PrivateData can say
	maxLists   = 1 << 20 // entries of a list
	maxOctets  = 1 << 30 // of one call: chunks takes no more
	maxCredits = math.MaxInt32
)

func (c *RequesterConfig) check() error {
	return setting.Check(append(limits(&c.Limits),
		setting.Int("Profile", int(c.Profile), int(RFC8166), int(RFC5666)),
		setting.Int("MaxRead", c.MaxRead, 1, maxOctets),
		setting.Count("Align", c.Align),
		setting.Count("AlignMin", c.AlignMin),
		setting.Int("Credits", int64(c.Credits), 1, maxCredits),
		setting.Int("SendSize", c.SendSize, minSend, maxSend),
		setting.Int("RecvSize", c.RecvSize, minSend, maxSend),
		setting.Count("ReduceMin", c.ReduceMin),
		setting.Count("SinkMin", c.SinkMin),
		setting.Count("GatherMin", c.GatherMin),
	)...)
}

func (c *ResponderConfig) check() error {
	return setting.Check(append(limits(&c.Limits),
		setting.Int("Profile", int(c.Profile), int(RFC8166), int(RFC5666)),
		setting.Count("MaxExposed", c.MaxExposed),
		setting.Count("MaxExposedOctets", c.MaxExposedOctets),
		setting.Count("ExposeMin", c.ExposeMin),
		setting.Count("Align", c.Align),
		setting.Count("AlignMin", c.AlignMin),
		setting.Int("Credits", int64(c.Credits), 1, maxCredits),
		setting.Int("SendSize", c.SendSize, minSend, maxSend),
		setting.Count("GatherMin", c.GatherMin),
	)...)
}

func limits(l *chunks.Limits) []setting.Setting {
	return []setting.Setting{
		setting.Int("Limits.MaxReadSegments", l.MaxReadSegments, 1, maxLists),
		setting.Int("Limits.MaxWriteChunks", l.MaxWriteChunks, 1, maxLists),
		setting.Int("Limits.MaxSegments", l.MaxSegments, 1, maxLists),
		setting.Int("Limits.MaxOctets", l.MaxOctets, 1, maxOctets),
	}
}
