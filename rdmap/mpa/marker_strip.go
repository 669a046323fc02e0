package mpa

import "encoding/binary"

// stripState is what a Deframer knows about a direction with markers: its position in the stream,
// and where in the staging the last FPDU lies.
type stripState struct {
	phase int  // position of the next octet, modulo 512
	again bool // Unread was called: the FPDU described below is returned again
	at    int  // offset of its ULPDU in the octets consumed
	size  int  // length of its ULPDU
	n     int  // octets consumed
}

// ExpectMarkers makes d remove the markers that the peer inserts because this side asked for them
// (Negotiation.RecvMarkers). Call it before the first octet of full operation: d derives its
// position in the stream from the octets that Next has consumed.
func (d *Deframer) ExpectMarkers() { d.marked, d.slow = true, true }

// Unread takes the last FPDU back: the next call of Next returns it once more. It is for a caller
// that cannot use the FPDU yet. That caller keeps the octets, beginning with the first of the FPDU,
// as Next left them. Without markers Unread does nothing and need not be called, because then Next
// changes nothing.
func (d *Deframer) Unread() { d.strip.again = d.strip.n > 0 }

// nextMarked is Next for a direction with markers. They are found by position, not by content, and
// checked after the CRC: "the MPA receiver MUST" be able to find FPDUs by ULPDU_Length (RFC 5044
// Section 4.3).
func (d *Deframer) nextMarked(b []byte) (ulpdu []byte, n int, err error) {
	s := &d.strip
	if s.again {
		s.again = false
		return b[s.at : s.at+s.size : s.at+s.size], s.n, nil
	}
	s.n = 0
	size, n, ok := d.markedLen(b)
	if !ok || len(b) < n {
		return nil, 0, nil
	}
	if d.CRC {
		if err := d.check(UpdateCRC(0, b[:n-CRCLen]), ReadCRC(b[n-CRCLen:n])); err != nil {
			return nil, 0, err
		}
	}
	start := d.lengthAt()
	if err := d.checkMarkers(b[:n], start); err != nil {
		return nil, 0, err
	}
	first := markerInterval - s.phase // offset of the first marker after start
	s.at, s.size, s.n = start+HeaderLen, size, n
	s.phase = (s.phase + n) % markerInterval
	squeeze(b, s.at, first, size)
	return b[s.at : s.at+size : s.at+size], n, nil
}

// lengthAt returns the offset of ULPDU_Length in the next FPDU, which may begin with a marker.
func (d *Deframer) lengthAt() int {
	if d.strip.phase == 0 {
		return markerLen
	}
	return 0
}

// markedLen returns the length of the ULPDU at the start of b, and that of its FPDU including
// markers; ok is false if b is too short to tell.
func (d *Deframer) markedLen(b []byte) (size, n int, ok bool) {
	at := d.lengthAt()
	if len(b) < at+HeaderLen {
		return 0, 0, false
	}
	size = int(binary.BigEndian.Uint16(b[at:]))
	n = FPDULen(size)
	return size, n + markerOctets(d.strip.phase, n), true
}

// needMarked is Need for a direction with markers.
func (d *Deframer) needMarked(b []byte) int {
	if d.strip.again {
		return d.strip.n
	}
	if _, n, ok := d.markedLen(b); ok {
		return n
	}
	return d.lengthAt() + HeaderLen
}

// checkMarkers compares each marker of the FPDU b with the offset of its ULPDU_Length, start. A
// difference although the CRC is right is code 3 (RFC 5044 Section 8). The 16 reserved bits are
// ignored, and the low two of FPDUPTR are masked.
// Choice: markers are checked even without CRCs; nothing else would notice an error.
func (d *Deframer) checkMarkers(b []byte, start int) error {
	for at := -d.strip.phase & (markerInterval - 1); at < len(b); at += markerInterval {
		got := int(binary.BigEndian.Uint16(b[at+2:])) &^ 3
		if want := max(0, at-start); got != want {
			return d.fail(&Error{Code: CodeMarker, Got: uint32(got), Want: uint32(want)})
		}
	}
	return nil
}

// squeeze moves the size octets of the ULPDU at b[at:] together over the markers between them, of
// which the first is at b[first:].
func squeeze(b []byte, at, first, size int) {
	to := first
	for left := size - (first - at); left > 0; left -= markerStride {
		k := min(left, markerStride)
		to += copy(b[to:], b[first+markerLen:first+markerLen+k])
		first += markerInterval
	}
}
