package rdmap

import (
	"encoding/binary"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// maxRequest is the largest payload of a queue 1 message: a Verify Request with
// the longest hash.
const maxRequest = 16 + maxHash

// maxHash is the longest hash of a Verify, octets.
const maxHash = 64

// immediateLen is the length of Immediate Data, octets (RFC 7306 Section 6).
const immediateLen = 8

// request is a message of queue 1, which is held in one of the IRD slots until its response has been
// handed down (RFC 5040 Section 6.1). Its header is kept for a Terminate.
type request struct {
	op     verbs.Opcode
	swap   bool // the Swap of draft-ietf-storm-rdmap-ext-01 is permitted
	hdr    [ddp.UntaggedLen]byte
	body   [maxRequest]byte
	slow   bool   // a Verify that reads a medium
	n      uint8  // of body
	segLen uint16 // ULPDU length of its (last) segment
}

// readHeaderLen is the length of the RDMAP header of a Read Request, octets.
const readHeaderLen = 28

// readRequest is the RDMAP header of a Read Request (RFC 5040 Section 4.4),
// big-endian:
//
//	off 0 sink STag, 4 sink TO (8 octets), 12 size, 16 source STag, 20 source TO (8)
type readRequest struct {
	sink   region.STag
	sinkTO uint64
	size   uint32
	src    region.STag
	srcTO  uint64
}

func (r *readRequest) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(r.sink))
	b = binary.BigEndian.AppendUint64(b, r.sinkTO)
	b = binary.BigEndian.AppendUint32(b, r.size)
	b = binary.BigEndian.AppendUint32(b, uint32(r.src))
	return binary.BigEndian.AppendUint64(b, r.srcTO)
}

// parse reads the first 28 octets of b.
func (r *readRequest) parse(b []byte) {
	_ = b[readHeaderLen-1]
	r.sink = region.STag(binary.BigEndian.Uint32(b))
	r.sinkTO = binary.BigEndian.Uint64(b[4:])
	r.size = binary.BigEndian.Uint32(b[12:])
	r.src = region.STag(binary.BigEndian.Uint32(b[16:]))
	r.srcTO = binary.BigEndian.Uint64(b[20:])
}
