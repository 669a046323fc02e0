package mpa

import (
	"encoding/binary"

	"github.com/stag-rdma/stag/rdmap/mpa/internal/crc32c"
)

// CRCLen is the length of the CRC field, which every FPDU has even when CRCs are
// off.
const CRCLen = 4

// UpdateCRC returns the CRC32C of the octets summed up in crc followed by p. A new
// sum begins with crc 0, so the sum over pieces is built piece by piece:
//
//	crc := mpa.UpdateCRC(0, header)
//	crc = mpa.UpdateCRC(crc, payload)
//
// The value is the reflected, complemented register of RFC 5044 Section 4.4.
func UpdateCRC(crc uint32, p []byte) uint32 { return crc32c.Update(crc, p) }

// AppendCRC appends a CRC value as it stands in an FPDU, least significant octet
// first, although every other field is big-endian (RFC 5044 Section 4.4).
func AppendCRC(b []byte, crc uint32) []byte { return binary.LittleEndian.AppendUint32(b, crc) }

// ReadCRC returns the CRC value in the first 4 octets of b.
func ReadCRC(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }
