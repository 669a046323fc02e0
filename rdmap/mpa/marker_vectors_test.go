package mpa_test

import (
	"bytes"
	"crypto/sha256"
	"testing"
)

// send returns the ULPDU of a Send: DDP untagged, last, queue 0, offset 0.
func send(t testing.TB, msn byte, payload []byte) []byte {
	return append(append(unhex(t, "4143 00000000 00000000 000000"), msn, 0, 0, 0, 0), payload...)
}

// markedVector is FPDUs that begin at position pos of a direction with markers.
type markedVector struct {
	name   string
	pos    int
	ulpdus [][]byte
	end    string         // the last octets
	len    int            // on the wire
	marks  map[int]uint16 // position of each marker: FPDUPTR
	sha256 string         // the first octets
}

func markedVectors(t testing.TB) []markedVector {
	return []markedVector{
		{
			// RFC 5044 Figure 5: a marker before the first FPDU.
			name: "figure 5", ulpdus: [][]byte{send(t, 1, make([]byte, 24))}, len: 52,
			end: `00000000002a4143000000000000000000000001000000000000000000000000
				0000000000000000000000000000000052239983`,
			marks: map[int]uint16{0: 0},
		},
		{
			// RFC 5044 Figure 6: one inside the second.
			name: "figure 6", pos: 0x1ec, ulpdus: [][]byte{send(t, 2, make([]byte, 24))}, len: 52,
			end: `002a414300000000000000000000000200000000000000140000000000000000
				0000000000000000000000000000000084925898`,
			marks: map[int]uint16{0x200: 0x14},
		},
		{
			name: "long", ulpdus: [][]byte{send(t, 1, ramp(0, 1, 1024))}, len: 1060,
			end: "a1b0ef97", sha256: "8365f17a60013b13",
			marks: map[int]uint16{0: 0, 512: 508, 1024: 1020},
		},
		{
			name: "before", ulpdus: [][]byte{send(t, 1, make([]byte, 484))}, len: 512,
			end: "a09bb55b", marks: map[int]uint16{0: 0},
		},
		{
			// It belongs to the second FPDU, whose CRC covers it.
			name: "between two", ulpdus: [][]byte{send(t, 1, make([]byte, 484)), send(t, 2, []byte("HELLO"))}, len: 548,
			end: `a09bb55b
				00000000001741430000000000000000000000020000000048454c4c4f000000
				a078bd59`,
			marks: map[int]uint16{0: 0, 512: 0},
		},
		{
			name: "between PAD and CRC", ulpdus: [][]byte{send(t, 1, make([]byte, 488))}, len: 520,
			end: "00000000000001fc38cf64e8", marks: map[int]uint16{0: 0, 512: 508},
		},
	}
}

func (v *markedVector) check(t *testing.T, got []byte) {
	t.Helper()
	if end := unhex(t, v.end); len(got) != v.len || !bytes.HasSuffix(got, end) {
		t.Fatalf("%d octets, want %d; got %x", len(got), v.len, got)
	}
	sum := sha256.Sum256(got)
	if !bytes.HasPrefix(sum[:], unhex(t, v.sha256)) {
		t.Errorf("SHA-256 %x", sum)
	}
	for pos := range v.pos + v.len {
		if pos%512 != 0 || pos < v.pos {
			continue
		}
		ptr, ok := v.marks[pos]
		if m := got[pos-v.pos:]; !ok || m[0] != 0 || m[1] != 0 || m[2] != byte(ptr>>8) || m[3] != byte(ptr) {
			t.Errorf("marker at %d: %x, want FPDUPTR %d", pos, m[:4], ptr)
		}
	}
}

func TestMarkerVectors(t *testing.T) {
	for _, v := range markedVectors(t) {
		t.Run(v.name, func(t *testing.T) {
			for name, w := range markedWriters {
				t.Run(name, func(t *testing.T) { v.check(t, w(insertAt(v.pos%512), v.ulpdus, true)) })
			}
			wire := markedWriters["append"](insertAt(v.pos%512), v.ulpdus, true)
			got, rest, err := deframeWith(markedAt(true, v.pos%512), wire, func() int { return 7 })
			if err != nil || len(rest) > 0 || !equal(got, v.ulpdus) {
				t.Errorf("%x, %d left, %v", got, len(rest), err)
			}
		})
	}
}
