package rpcrdma

import "encoding/binary"

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
