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

// WriteCRCs fills in the CRC field of every FPDU in b, which must consist of whole FPDUs without
// markers. Short FPDUs of equal length that follow each other take a third of the time that they
// take one by one.
func WriteCRCs(b []byte) {
	for len(b) > 0 {
		n := FPDULen(int(binary.BigEndian.Uint16(b)))
		if !fourAlike(b, n) {
			end := n - CRCLen
			AppendCRC(b[:end], UpdateCRC(0, b[:end]))
			b = b[n:]
			continue
		}
		for i, sum := range crc32c.Four(b, n, n-CRCLen) {
			AppendCRC(b[:(i+1)*n-CRCLen], sum)
		}
		b = b[4*n:]
	}
}

// fourAlike reports whether b begins with four FPDUs of n octets each, the length of the first,
// that are faster to sum side by side.
func fourAlike(b []byte, n int) bool {
	if n > crc32c.FourMax+CRCLen || len(b) < 4*n {
		return false
	}
	size := binary.BigEndian.Uint16(b)
	return binary.BigEndian.Uint16(b[n:]) == size && binary.BigEndian.Uint16(b[2*n:]) == size &&
		binary.BigEndian.Uint16(b[3*n:]) == size
}

// checkCRC checks the FPDU of n octets at the start of b. If it is the first of four alike, it sums
// all four, and d.ahead counts the octets after this FPDU whose CRC is known to be right. An error
// there is reported when its turn comes.
func (d *Deframer) checkCRC(b []byte, n int) error {
	if n <= d.ahead {
		d.ahead -= n
		return nil
	}
	d.ahead = 0
	if !fourAlike(b, n) {
		return d.check(UpdateCRC(0, b[:n-CRCLen]), ReadCRC(b[n-CRCLen:n]))
	}
	sums := crc32c.Four(b, n, n-CRCLen)
	if err := d.check(sums[0], ReadCRC(b[n-CRCLen:n])); err != nil {
		return err
	}
	for i := 1; i < 4 && sums[i] == ReadCRC(b[(i+1)*n-CRCLen:]); i++ {
		d.ahead += n
	}
	return nil
}
