package machine

import (
	"encoding/binary"

	"github.com/stag-rdma/stag/internal/crc32c"
)

// Head says where the used part of the ring begins. A log that has been read to its end has no
// record that would give the next sequence number, so the head also stores that.
//
//	off 0, 8 octets: Pos
//	off 8, 8: Seq
//	off 16, 4: CRC32C of the log's ID and octets 0 to 15
type Head struct {
	Pos uint64 // octets before it may be overwritten
	Seq uint64 // of the first record at or after Pos; the first of all is 1
}

// HeadLen is the size of a head slot.
const HeadLen = 20

// Append appends the HeadLen octets of a slot of the log id to b.
func (h Head) Append(b []byte, id *[16]byte) []byte {
	at := len(b)
	b = binary.BigEndian.AppendUint64(b, h.Pos)
	b = binary.BigEndian.AppendUint64(b, h.Seq)
	return binary.BigEndian.AppendUint32(b, headSum(b[at:], id))
}

// Parse reads the slot in b, the HeadLen octets at off.
func (h *Head) Parse(b []byte, id *[16]byte, off int) error {
	got, want := binary.BigEndian.Uint32(b[16:]), headSum(b[:16], id)
	if got != want {
		return &FormatError{Field: "head checksum", Off: off + 16, Kind: ErrChecksum, Got: uint64(got), Want: uint64(want)}
	}
	h.Pos, h.Seq = binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
	if h.Pos%Align != 0 || h.Seq == 0 {
		return &FormatError{Field: "head", Off: off, Kind: ErrValue, Got: h.Pos, Want: h.Pos / Align * Align}
	}
	return nil
}

func headSum(b []byte, id *[16]byte) uint32 {
	return crc32c.Update(checksum(id[:]), b)
}
