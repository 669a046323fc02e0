package machine

import (
	"encoding/binary"
	"fmt"

	"github.com/stag-rdma/stag/internal/crc32c"
)

// RecordHeaderLen is the length in octets of the header before a payload.
const RecordHeaderLen = 28

// fillerBit in the length marks a filler: the other bits are its size, including the header.
const fillerBit = 1 << 31

// Record is the header of a record, or of a filler, which fills the ring where the next record
// would cross its end.
//
//	off 0, 4 octets: Len; in a filler 2^31 + the octets to the end of the ring
//	off 4, 4: Epoch
//	off 8, 8: Seq; a filler has that of the record after it
//	off 16, 8: Proven
//	off 24, 4: CRC32C of salt (8), Epoch (4), Seq (8), Len as above (4), Proven (8), payload
//	off 28: payload, then zeros up to a multiple of 64
type RecordHeader struct {
	Len    int // of the payload
	Epoch  uint32
	Seq    uint64
	Filler uint64 // the size of a filler; 0: a record
	Proven uint64 // the position up to which its producer knew everything to be acknowledged as persistent
	Sum    uint32
}

// Size returns how many octets the record takes in the ring.
func (r *RecordHeader) Size() uint64 {
	if r.Filler != 0 {
		return r.Filler
	}
	return RecordSize(r.Len)
}

func (r *RecordHeader) word() uint32 {
	if r.Filler != 0 {
		return fillerBit | uint32(r.Filler)
	}
	return uint32(r.Len)
}

// MaxFiller is the size in octets of the largest filler. A filler is smaller than the record after
// it, which takes at most half the ring, and whose payload has at most MaxPayload.
const MaxFiller = fillerBit - Align

// AppendRecord appends a record with its padding to b.
func AppendRecord(b []byte, salt uint64, epoch uint32, seq, proven uint64, payload []byte) []byte {
	r := RecordHeader{Len: len(payload), Epoch: epoch, Seq: seq, Proven: proven}
	b = r.append(b, salt, payload)
	b = append(b, payload...)
	return append(b, zeros[:r.Size()-RecordHeaderLen-uint64(len(payload))]...)
}

// AppendFiller appends the header of a filler of size octets to b, padded to Align. The octets
// after it, up to the end of the ring, do not matter.
func AppendFiller(b []byte, salt uint64, epoch uint32, seq, proven, size uint64) []byte {
	r := RecordHeader{Epoch: epoch, Seq: seq, Proven: proven, Filler: size}
	return append(r.append(b, salt, nil), zeros[:Align-RecordHeaderLen]...)
}

var zeros [Align]byte

func (r *RecordHeader) append(b []byte, salt uint64, payload []byte) []byte {
	b, sum := r.sum(b, salt, payload)
	b = binary.BigEndian.AppendUint32(b, r.word())
	b = binary.BigEndian.AppendUint32(b, r.Epoch)
	b = binary.BigEndian.AppendUint64(b, r.Seq)
	b = binary.BigEndian.AppendUint64(b, r.Proven)
	return binary.BigEndian.AppendUint32(b, sum)
}

// sum returns the checksum. It uses the room after b, because a separate array would be allocated,
// and returns b, which may have moved.
func (r *RecordHeader) sum(b []byte, salt uint64, payload []byte) ([]byte, uint32) {
	at := len(b)
	b = binary.BigEndian.AppendUint64(b, salt)
	b = binary.BigEndian.AppendUint32(b, r.Epoch)
	b = binary.BigEndian.AppendUint64(b, r.Seq)
	b = binary.BigEndian.AppendUint32(b, r.word())
	b = binary.BigEndian.AppendUint64(b, r.Proven)
	return b[:at], crc32c.Update(checksum(b[at:]), payload)
}

// ParseRecord reads the RecordHeaderLen octets in b. It checks nothing.
func ParseRecord(b []byte) RecordHeader {
	r := RecordHeader{Epoch: binary.BigEndian.Uint32(b[4:]), Seq: binary.BigEndian.Uint64(b[8:]), Proven: binary.BigEndian.Uint64(b[16:]), Sum: binary.BigEndian.Uint32(b[24:])}
	switch w := binary.BigEndian.Uint32(b); {
	case w == fillerBit:
		r.Len = -1 // an empty filler: there must be no second way to say "no payload"
	case w&fillerBit != 0:
		r.Filler = uint64(w &^ fillerBit)
	default:
		r.Len = int(w)
	}
	return r
}

// Reason says why octets are not the expected record.
type Reason uint8

// The reasons, in the order of the checks.
const (
	Valid         Reason = iota
	BadLength            // no record has this length, or none here
	BadEpoch             // the epoch cannot occur here
	BadSequence          // not the next number
	BadChecksum          // header or payload is not what was written
	BeyondTail           // it would end beyond the octets that were written
	Missing              // it was there when the last session began, but is gone
	Damaged              // a later record proves that it was acknowledged
	numberReasons        // not a reason
)

var reasonNames = [numberReasons]string{
	Valid: "valid", BadLength: "impossible length", BadEpoch: "wrong epoch",
	BadSequence: "wrong sequence number", BadChecksum: "wrong checksum", BeyondTail: "ends beyond the tail",
	Missing: "gone, with all records after it", Damaged: "damaged, and a later record proves that it was acknowledged",
}

// String returns the reason in words.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return fmt.Sprintf("Reason(%d)", uint8(r))
}

// Place is what a record must agree with.
type Expected struct {
	Pos            uint64
	Seq            uint64
	MinEpoch, Last uint32 // epochs that can occur here
	Limit          uint64 // the position it may end at
	Capacity       uint64
}

// CheckHeader checks everything but the checksum, so that the payload can be read safely.
func (r *RecordHeader) CheckHeader(p *Expected) Reason {
	end := ToEnd(p.Pos, p.Capacity)
	switch size := r.Size(); {
	case r.Filler != 0 && r.Filler != end, r.Filler == 0 && (r.Len < 0 || r.Len > PayloadLimit(p.Capacity) || size > end):
		return BadLength
	case r.Epoch < p.MinEpoch || r.Epoch > p.Last:
		return BadEpoch
	case r.Seq != p.Seq:
		return BadSequence
	case p.Pos+size > p.Limit:
		return BeyondTail
	}
	return Valid
}

// CheckSum checks the checksum with the payload, which is nil for a filler.
func (r *RecordHeader) CheckSum(salt uint64, payload []byte) Reason {
	if _, sum := r.sum(nil, salt, payload); sum != r.Sum {
		return BadChecksum
	}
	return Valid
}
