package rdmap

import (
	"encoding/binary"

	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// capability is the stag capability block: the last 12 octets of the MPA private
// data, after those of the upper layer (RFC 8797 data has to be at offset 0). A peer
// without it is a plain peer.
//
//	off 0, 4 octets: magic "stag"
//	off 4, 1: version, 1
//	off 5, 1: length of the block, 12
//	off 6, 2: largest ULPDU accepted, octets
//	off 8, 4: features
//
// Unknown feature bits are ignored. Octets that differ from this layout, or that accept no ULPDU at
// all, are not a block and belong to the upper layer.
//
// Choice: the block is this project's own; no document defines it.
type capability struct {
	mulpdu   uint16
	features uint32
}

const (
	capMagic   = 0x73746167
	capVersion = 1
	capLen     = 12

	// featInterleave: whole Sends may arrive between the segments of a tagged message.
	featInterleave = 1 << 0
	// Bits 1 to 3: the Extensions that are switched on.
	featExtensions = 1
	ownFeatures    = featInterleave
)

// maxPrivateData is the most private data that a startup frame gets, octets, including the enhanced
// word: Linux takes 256, RFC 5044 allows 512.
const maxPrivateData = 256

func (cp capability) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, capMagic)
	b = append(b, capVersion, capLen)
	b = binary.BigEndian.AppendUint16(b, cp.mulpdu)
	return binary.BigEndian.AppendUint32(b, cp.features)
}

// splitCapability takes the block off the end of private data. ulp is the rest and aliases b.
func splitCapability(b []byte) (ulp []byte, cp capability, ok bool) {
	if len(b) < capLen {
		return b, cp, false
	}
	at := len(b) - capLen
	blk := b[at:]
	if binary.BigEndian.Uint32(blk) != capMagic || blk[4] != capVersion || blk[5] != capLen {
		return b, cp, false
	}
	cp.mulpdu = binary.BigEndian.Uint16(blk[6:])
	cp.features = binary.BigEndian.Uint32(blk[8:])
	if cp.mulpdu == 0 {
		return b, capability{}, false
	}
	return b[:at:at], cp, true
}

// extensionsOf returns the extensions among the features.
func extensionsOf(features uint32) verbs.Extensions {
	return verbs.Extensions(features>>featExtensions) & engine.ExtAll
}

// ownCapability returns the block that this engine sends.
func ownCapability(x verbs.Extensions) capability {
	return capability{StagMULPDU, ownFeatures | uint32(x)<<featExtensions}
}

// withCapability returns ulp followed by the block, or ulp alone if there is no room for both and
// enhanced octets more.
func withCapability(ulp []byte, enhanced int, x verbs.Extensions) []byte {
	if len(ulp)+capLen+enhanced > maxPrivateData {
		return ulp
	}
	return ownCapability(x).append(append(make([]byte, 0, len(ulp)+capLen), ulp...))
}
