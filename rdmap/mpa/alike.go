package mpa

import (
	"encoding/binary"

	"github.com/stag-rdma/stag/rdmap/mpa/internal/crc32c"
)

// WriteCRCs writes the CRC field of every FPDU in b, which is nothing but whole FPDUs
// without markers that lack it. Short ones of equal length take a third of the time that
// they take one by one.
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

// fourAlike reports whether b begins with four FPDUs of the length of the first, n octets,
// that are better summed side by side.
func fourAlike(b []byte, n int) bool {
	if n > crc32c.FourMax+CRCLen || len(b) < 4*n {
		return false
	}
	size := binary.BigEndian.Uint16(b)
	return binary.BigEndian.Uint16(b[n:]) == size && binary.BigEndian.Uint16(b[2*n:]) == size &&
		binary.BigEndian.Uint16(b[3*n:]) == size
}

// checkCRC checks the FPDU of n octets that b begins with. Of four alike it sums all, and
// keeps in d.ahead for how many octets behind this one the field is right: what is wrong
// there is found when its turn comes.
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
