package mpa

// Limits in octets (RFC 5044 Section 3).
const (
	// MaxULPDU is the longest ULPDU a sender may frame.
	MaxULPDU = 64768
	// MinMULPDU is the smallest MULPDU an MPA may announce.
	MinMULPDU = 128
	// MaxFPDU is the length of the longest FPDU that a length field can announce,
	// FPDULen(65535). A receiver's buffer must be able to hold it.
	MaxFPDU = 65544
)

// MULPDU returns the length of the longest ULPDU whose FPDU fits into a TCP segment of emss octets
// (the effective maximum segment size), with or without room for markers (RFC 5044 Section 4.5). The
// result is in 128..64768; if emss is too small for 128, FPDUs span segments.
func MULPDU(emss int, markers bool) int {
	n := emss - HeaderLen - CRCLen - emss%4
	if markers {
		n -= markerLen * ((emss + markerInterval - 1) / markerInterval)
	}
	return min(max(n, MinMULPDU), MaxULPDU)
}
