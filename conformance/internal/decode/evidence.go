package decode

import (
	"encoding/binary"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// The evidence that an FPDU begins somewhere is counted in bits: how many bits there are as they have to be.
// Octets that are not an FPDU pass n bits by chance once in 2^n.
const (
	// proof is the evidence, in bits, that makes a boundary certain: it occurs by chance once in 2^64.
	proof = 64
	// hint is enough evidence if the stream ends exactly where the last FPDU does.
	hint = 40

	bitsTagged   = 14      // reserved bits, versions and opcode
	bitsUntagged = 11 + 32 // the same, and the queue number
	bitsRequest  = 33      // a message other than a Send has one segment: L and MO
	bitsCRC      = 32
	bitsNext     = 60 // a segment continues the one before it: STag and TO, or MSN and MO
)

// Lengths of the DDP headers (RFC 5041 Sections 4.1 and 4.2).
const (
	taggedHead   = 14
	untaggedHead = 18
)

// fpduHead is how much of an FPDU the evidence needs: the MPA and DDP headers.
const fpduHead = mpa.HeaderLen + untaggedHead

// heading is what the head of a plausible FPDU says.
type heading struct {
	n      int // octets of the FPDU
	bits   int
	tagged bool
	last   bool
	tag    uint32 // STag or MSN
	qn     uint32
	at     uint64 // TO or MO
	size   uint64 // octets of payload
}

// plausible reads fpduHead octets; ok is false if no FPDU can begin with them.
func plausible(b []byte) (h heading, ok bool) {
	control, op := b[2], b[3]
	if control&0x3f != ddp.Version || op&0xe0 != rdmapVersion<<6 {
		return h, false
	}
	be := binary.BigEndian
	size := int(be.Uint16(b))
	h.n, h.tagged, h.last = mpa.FPDULen(size), control&0x80 != 0, control&0x40 != 0
	opcode := verbs.Opcode(op & 0x1f)
	if opcode > verbs.OpAtomicWriteResponse || opcode.Tagged() != h.tagged {
		return h, false
	}
	if h.tagged {
		h.tag, h.at, h.bits = be.Uint32(b[4:]), be.Uint64(b[8:]), bitsTagged
		h.size = uint64(size - taggedHead)
		return h, size >= taggedHead
	}
	h.qn, h.tag, h.at, h.bits = be.Uint32(b[8:]), be.Uint32(b[12:]), uint64(be.Uint32(b[16:])), bitsUntagged
	h.size = uint64(size - untaggedHead)
	if !opcode.IsSend() {
		if h.bits += bitsRequest; !h.last || h.at != 0 {
			return h, false
		}
	}
	return h, size >= untaggedHead && h.qn == opcode.Queue()
}

// follows reports whether h is the segment to expect after p.
func (h *heading) follows(p *heading) bool {
	switch {
	case h.tagged != p.tagged || h.qn != p.qn:
		return false
	case !p.last:
		return h.tag == p.tag && h.at == p.at+p.size
	default:
		return !h.tagged && h.tag == p.tag+1 && h.at == 0
	}
}

// evidence walks FPDUs from one boundary to the next.
type evidence struct {
	bits  int
	fpdus int // whole ones
	good  int // of these, with the right CRC
	need  int // octets that are needed to go on
}

// proved reports whether FPDUs certainly begin there: there are two, or one with a right CRC.
func (e *evidence) proved() bool { return e.bits >= proof && (e.fpdus >= 2 || e.good > 0) }

// weigh collects the evidence that FPDUs begin at the start of b. ok is false if they do not. With crc the
// CRCs must be right.
func weigh(b []byte, crc bool) (e evidence, ok bool) {
	var before heading
	for at := 0; !e.proved(); {
		if e.need = at + fpduHead; len(b) < e.need {
			return e, true
		}
		h, ok := plausible(b[at:])
		if !ok {
			return e, false
		}
		if e.need = at + h.n; len(b) < e.need {
			return e, true
		}
		fpdu := b[at : at+h.n]
		good := mpa.UpdateCRC(0, fpdu[:h.n-mpa.CRCLen]) == mpa.ReadCRC(fpdu[h.n-mpa.CRCLen:])
		switch {
		case good:
			e.good++
			e.bits += bitsCRC
		case crc:
			return e, false
		}
		if e.fpdus > 0 && h.follows(&before) {
			e.bits += bitsNext
		}
		e.fpdus++
		e.bits += h.bits
		at, before = at+h.n, h
	}
	return e, true
}
