package mpa

import "encoding/binary"

// insertField is one of the parts into which Insert divides an FPDU.
type insertField uint8

const (
	// fieldLength: ULPDU_Length; also the state between two FPDUs, with left == 0.
	fieldLength insertField = iota
	// fieldBody: ULPDU and PAD.
	fieldBody
	// fieldCRC: computed here, since it covers the markers.
	fieldCRC
)

// Insert puts markers into FPDUs that were built without them, for an engine that knows the position
// in the stream only when it writes. The entries of vec together hold the FPDUs, and may be cut
// anywhere. They have room for the CRCs (AppendFPDU with crc false): the octets of the CRC fields
// are overwritten, all others are borrowed. An FPDU may continue in the next call.
//
// Insert appends to out the pieces of vec, which it lends, with the markers between them. The
// markers are appended to arena, which is returned too. The arena must not move: Insert panics if
// less than InsertRoom octets are free in it.
func (m *Inserter) Insert(out [][]byte, arena []byte, vec [][]byte, crc bool) (entries [][]byte, used []byte) {
	for _, p := range vec {
		for len(p) > 0 {
			if m.phase == 0 {
				out, arena = m.insertMarker(out, arena, crc)
			}
			n := min(len(p), markerInterval-m.phase)
			m.fields(p[:n], crc)
			out = append(out, p[:n:n])
			p = p[n:]
		}
	}
	return out, arena
}

// InsertRoom returns how many octets of arena Insert needs for n octets of FPDUs.
func (m *Inserter) InsertRoom(n int) int { return markerOctets(m.phase, n) }

func (m *Inserter) insertMarker(out [][]byte, arena []byte, crc bool) ([][]byte, []byte) {
	at := len(arena)
	if cap(arena)-at < markerLen {
		panic("mpa: Insert: arena full")
	}
	arena = m.due(arena)
	entry := arena[at:len(arena):len(arena)]
	if crc {
		m.sum = UpdateCRC(m.sum, entry)
	}
	return append(out, entry), arena
}

// fields steps over p, which no marker interrupts, field by field.
func (m *Inserter) fields(p []byte, crc bool) {
	for len(p) > 0 {
		if m.left == 0 {
			m.left = HeaderLen // the first octet of an FPDU
		}
		n := m.run(min(len(p), m.left))
		m.left -= n
		switch m.field {
		case fieldLength:
			for _, v := range p[:n] {
				m.size = m.size<<8 | int(v)
			}
		case fieldBody:
		case fieldCRC:
			m.putCRC(p[:n], crc)
		}
		if crc && m.field != fieldCRC {
			m.sum = UpdateCRC(m.sum, p[:n])
		}
		if m.left == 0 {
			m.nextField()
		}
		p = p[n:]
	}
}

// putCRC writes those octets of the CRC that lie in p; left more of them follow p.
func (m *Inserter) putCRC(p []byte, crc bool) {
	var b [CRCLen]byte
	if crc {
		binary.LittleEndian.PutUint32(b[:], m.sum)
	}
	copy(p, b[CRCLen-m.left-len(p):])
}

// nextField goes on to the next field when one is complete.
func (m *Inserter) nextField() {
	switch m.field {
	case fieldLength:
		checkMarkedLen(m.size)
		m.field, m.left = fieldBody, m.size+PadLen(m.size) // at least 2: PAD completes a word
	case fieldBody:
		m.field, m.left = fieldCRC, CRCLen
	case fieldCRC:
		m.field, m.off, m.size, m.sum = fieldLength, 0, 0, 0
	}
}
