package mpa

// Limits of a ULPDU in octets, RFC 5044 Section 3.
const (
	// MaxULPDU is the longest ULPDU a sender may frame.
	MaxULPDU = 64768
	// MinMULPDU is the smallest MULPDU an MPA may announce.
	MinMULPDU = 128
	// MaxFPDU is the length of the longest FPDU its length field can announce: what
	// a receiver's buffer must be able to hold. FPDULen(65535).
	MaxFPDU = 65544
)

// MULPDU returns the longest ULPDU whose FPDU fits a TCP segment of emss octets
// (the effective maximum segment size), with or without room for markers, in
// 128..64768. RFC 5044 Section 4.5. Below an EMSS that allows 128 the result stays
// 128 and FPDUs span segments.
func MULPDU(emss int, markers bool) int {
	n := emss - HeaderLen - CRCLen - emss%4
	if markers {
		n -= MarkerLen * ((emss + markerInterval - 1) / markerInterval)
	}
	return min(max(n, MinMULPDU), MaxULPDU)
}
