package decode

import (
	"encoding/binary"

	"github.com/stag-rdma/stag/rdmap/verbs"
)

// StagCapability is what a stag engine announces in the last 12 octets of its private data:
//
//	0  4  "stag"
//	4  1  version, 1
//	5  1  length, 12
//	6  2  largest ULPDU accepted, octets
//	8  4  features: bit 0 interleaving, bits 1 to 3 extensions
type StagCapability struct {
	MULPDU     uint16
	Interleave bool             // whole Sends may arrive between the segments of a tagged message
	Extensions verbs.Extensions // offered; in use are those that both sides offer
}

const capabilityLen = 12

// parseCapability reads the block at the end of private data; nil when there is none.
func parseCapability(private []byte) *StagCapability {
	if len(private) < capabilityLen {
		return nil
	}
	b := private[len(private)-capabilityLen:]
	if string(b[:6]) != "stag\x01\x0c" {
		return nil
	}
	features := binary.BigEndian.Uint32(b[8:])
	return &StagCapability{
		MULPDU: binary.BigEndian.Uint16(b[6:]), Interleave: features&1 != 0,
		Extensions: verbs.Extensions(features >> 1 & 7),
	}
}
