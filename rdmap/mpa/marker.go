package mpa

import "fmt"

// markerLen is the length of a marker in octets.
const markerLen = 4

const (
	// markerInterval is the distance between the first octets of two markers (RFC
	// 5044 Section 4.3). It divides 2^32, so positions need to be known only
	// modulo 512, whatever TCP's sequence numbers do.
	markerInterval = 512
	markerStride   = markerInterval - markerLen // octets of FPDUs between two markers
)

// MaxMarkedFPDU is MaxFPDU plus the markers, octets. A receiver that asked for markers must be able
// to hold that much.
const MaxMarkedFPDU = MaxFPDU + markerLen*((MaxFPDU+markerStride-1)/markerStride)

// markerOctets returns how many octets of markers an FPDU of n octets gets if its first octet, or
// the marker before it, is at position phase modulo 512. A marker after the last octet is not
// counted: it belongs to the next FPDU (RFC 5044 Section 4.3).
func markerOctets(phase, n int) int {
	n -= -phase & (markerInterval - 1) // octets before the first marker
	if n <= 0 {
		return 0
	}
	return markerLen * ((n + markerStride - 1) / markerStride)
}

// checkMarkedLen panics if a ULPDU of n octets is so long that FPDUPTR might not fit its 16 bits.
func checkMarkedLen(n int) {
	if n < 0 || n > MaxULPDU {
		panic(fmt.Sprintf("mpa: ULPDU of %d octets with markers", n))
	}
}
