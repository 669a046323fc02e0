package mpa

import "encoding/binary"

// Inserter puts markers into the FPDUs of one direction (RFC 5044 Section 4.3). A
// sender "MUST" do so if the peer set M (Negotiation.SendMarkers). A marker begins at
// every 512th octet of the direction, counting markers and beginning with the first octet:
//
//	| reserved 2, zero | FPDUPTR 2: octets back to ULPDU_Length |
//
// A marker between two FPDUs has FPDUPTR 0, belongs to the second one and is sent with it. The CRC
// covers the markers, so an FPDU is completed where they are inserted. There are two ways. They can
// be mixed as long as every FPDU takes one of them, in the order of the stream:
//
//   - AppendFPDU, in place of the function of the same name;
//   - Insert, for FPDUs that are complete except for markers and CRC.
//
// An Inserter knows only the position modulo 512 of what has been sent. The zero value is at the
// first octet of full operation. An Inserter is not safe for concurrent use.
type Inserter struct {
	phase int // position of the next octet, modulo 512
	off   int // octets from ULPDU_Length to the next octet; 0 between two FPDUs

	field insertField // the field that Insert is in
	left  int         // octets of field still to come
	size  int         // ULPDU_Length, or as much of it as is known
	sum   uint32
}

// FPDULen returns the length of the next FPDU in octets, including its markers, if its ULPDU has n
// octets.
func (m *Inserter) FPDULen(n int) int {
	n = FPDULen(n)
	return n + markerOctets(m.phase, n)
}

// AppendFPDU appends one whole FPDU with markers around ulpdu to b. ulpdu is borrowed. It panics if
// ulpdu is longer than MaxULPDU.
func (m *Inserter) AppendFPDU(b, ulpdu []byte, crc bool) []byte {
	at, n := len(b), len(ulpdu)
	b = m.header(b, n)
	b = m.copy(b, ulpdu)
	b = m.copy(b, zeroPad[:PadLen(n)])
	return m.finish(b, at, crc)
}

// header appends ULPDU_Length, and the marker before it if one is due.
func (m *Inserter) header(b []byte, n int) []byte {
	checkMarkedLen(n)
	b = m.due(b)
	m.run(HeaderLen)
	return binary.BigEndian.AppendUint16(b, uint16(n))
}

// finish appends the CRC to the FPDU b[at:], and the marker before it if one is due.
func (m *Inserter) finish(b []byte, at int, crc bool) []byte {
	b = m.due(b)
	var sum uint32
	if crc {
		sum = UpdateCRC(0, b[at:])
	}
	m.run(CRCLen)
	m.off = 0
	return AppendCRC(b, sum)
}

// copy appends p, a part of an FPDU, with the markers before and in it.
func (m *Inserter) copy(b, p []byte) []byte {
	for len(p) > 0 {
		b = m.due(b)
		k := m.run(len(p))
		b = append(b, p[:k]...)
		p = p[k:]
	}
	return b
}

// due appends a marker (16 reserved bits, which are 0, and FPDUPTR) if one belongs at this position.
// It is called only if another octet of the FPDU follows.
func (m *Inserter) due(b []byte) []byte {
	if m.phase != 0 {
		return b
	}
	m.phase = markerLen
	b = append(b, 0, 0, byte(m.off>>8), byte(m.off))
	if m.off > 0 {
		m.off += markerLen
	}
	return b
}

// run steps over n octets, but stops at the next marker, and returns how many it passed.
func (m *Inserter) run(n int) int {
	n = min(n, markerInterval-m.phase)
	m.phase = (m.phase + n) % markerInterval
	m.off += n
	return n
}
