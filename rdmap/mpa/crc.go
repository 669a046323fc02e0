package mpa

import (
	"encoding/binary"

	"github.com/stag-rdma/stag/internal/crc32c"
)

// CRCLen is the length of the CRC field in octets. Every FPDU has the field, even if CRCs are off.
const CRCLen = 4

// UpdateCRC returns the CRC32C of the octets that crc covers followed by p, which is borrowed. A new
// sum begins with crc 0:
//
//	crc := mpa.UpdateCRC(0, header)
//	crc = mpa.UpdateCRC(crc, payload)
//
// The value is the reflected, complemented register of RFC 5044 Section 4.4.
func UpdateCRC(crc uint32, p []byte) uint32 { return crc32c.Update(crc, p) }

// AppendCRC appends a CRC value to b as it stands in an FPDU, least significant octet first,
// although every other field is big-endian (RFC 5044 Section 4.4).
func AppendCRC(b []byte, crc uint32) []byte { return binary.LittleEndian.AppendUint32(b, crc) }

// ReadCRC returns the CRC value in the first 4 octets of b. It panics if b is shorter.
func ReadCRC(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }
