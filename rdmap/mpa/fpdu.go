package mpa

import (
	"encoding/binary"
	"fmt"
)

// HeaderLen is the length of the ULPDU_Length field in octets.
const HeaderLen = 2

var zeroPad [3]byte

// PadLen returns the number of pad octets, 0..3, after a ULPDU of n octets. They make the length of
// the FPDU a multiple of 4 (RFC 5044 Section 4.1).
func PadLen(n int) int { return -(HeaderLen + n) & 3 }

// FPDULen returns the length of the FPDU around a ULPDU of n octets, including length field, pad and
// CRC, but no markers.
func FPDULen(n int) int { return (HeaderLen+n+3)&^3 + CRCLen }

// AppendHeader appends the ULPDU_Length field for a ULPDU of n octets to b. It panics if n is not in
// 0..65535, which is a programming error.
func AppendHeader(b []byte, n int) []byte {
	checkLen(n)
	return binary.BigEndian.AppendUint16(b, uint16(n))
}

// AppendTrailer appends to b the pad and the CRC of an FPDU whose ULPDU has n octets. crc is the sum
// over the length field and the ULPDU (see UpdateCRC); AppendTrailer adds the pad, which the CRC
// covers too. If on is false the CRC field is 0: "any value" is then legal (RFC 5044 Section 4.4).
func AppendTrailer(b []byte, n int, crc uint32, on bool) []byte {
	pad := zeroPad[:PadLen(n)]
	b = append(b, pad...) // the sender MUST send zeros, RFC 5044 Section 4.1
	if !on {
		return AppendCRC(b, 0)
	}
	return AppendCRC(b, UpdateCRC(crc, pad))
}

// AppendFPDU appends one whole FPDU around ulpdu to b. ulpdu, 0..65535 octets, is borrowed.
func AppendFPDU(b, ulpdu []byte, crc bool) []byte {
	at := len(b)
	b = AppendHeader(b, len(ulpdu))
	b = append(b, ulpdu...)
	var sum uint32
	if crc {
		sum = UpdateCRC(0, b[at:])
	}
	return AppendTrailer(b, len(ulpdu), sum, crc)
}

func checkLen(n int) {
	if n < 0 || n > 0xffff {
		panic(fmt.Sprintf("mpa: ULPDU of %d octets", n))
	}
}
