package mpa_test

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/rdmap/mpa"
)

// oracleStream is the sender loop of RFC 5044 Section 4.3 in steps of four octets. It returns the octets
// that carry ulpdus in a direction at position pos.
func oracleStream(pos int, ulpdus [][]byte, crc bool) (out []byte) {
	for _, u := range ulpdus {
		plain := oracleFPDU(u, false)
		begin := len(out)
		hdr := -1 // position of ULPDU_Length
		for i := 0; i < len(plain); i += 4 {
			if (pos+len(out))%512 == 0 {
				ptr := 0
				if hdr >= 0 {
					ptr = pos + len(out) - hdr
				}
				out = binary.BigEndian.AppendUint32(out, uint32(ptr))
			}
			if hdr < 0 {
				hdr = pos + len(out)
			}
			word := plain[i : i+4]
			if crc && i+4 == len(plain) {
				word = binary.LittleEndian.AppendUint32(nil, mpa.UpdateCRC(0, out[begin:]))
			}
			out = append(out, word...)
		}
	}
	return out
}

// markerSizes are ULPDU lengths around the limits at 4, 508 and 512.
var markerSizes = []int{
	0, 1, 2, 3, 4, 5, 6, 13, 14, 18, 23, 494, 498, 499, 500, 501, 502, 503, 504, 505, 506, 507, 508, 509, 510, 511, 512,
	513, 514, 1008, 1010, 1014, 1015, 1016, 1018, 1020, 1022, 1424, 1430, 1442, 5000,
}

// phases are the positions modulo 512 at which an FPDU can begin. It never begins at 4, because the
// marker before it is its own.
func phases(yield func(int) bool) {
	for phase := 0; phase < 512; phase += 4 {
		if phase != 4 && !yield(phase) {
			return
		}
	}
}

// leadIn is an FPDU, or none, after which a direction is at position phase.
func leadIn(phase int) []byte {
	var b []byte
	switch phase {
	case 0:
	case 8: // behind a marker inside
		b = oracleStream(0, [][]byte{make([]byte, 506)}, true)
	default:
		b = oracleStream(0, [][]byte{make([]byte, phase-10)}, true)
	}
	if len(b)%512 != phase {
		panic("leadIn")
	}
	return b
}

// insertAt returns an Inserter whose direction is at position phase.
func insertAt(phase int) *mpa.Inserter {
	m := new(mpa.Inserter)
	if b := leadIn(phase); b != nil {
		ulpdu, _, err := marked(true).Next(b)
		if err != nil || len(m.AppendFPDU(nil, ulpdu, true)) != len(b) {
			panic("insertAt")
		}
	}
	return m
}

// markedAt returns a Deframer of a direction with markers, at position phase.
func markedAt(crc bool, phase int) *mpa.Deframer {
	d := marked(crc)
	if b := leadIn(phase); b != nil {
		if _, n, err := d.Next(b); n != len(b) || err != nil {
			panic("markedAt")
		}
	}
	return d
}

func TestMarkedLen(t *testing.T) {
	for _, n := range append(slices.Clone(markerSizes), mpa.MaxULPDU) {
		for phase := range phases {
			m := insertAt(phase)
			want := len(oracleStream(phase, [][]byte{make([]byte, n)}, false))
			if got := m.FPDULen(n); got != want {
				t.Fatalf("ULPDU of %d octets at %d: FPDULen = %d, want %d", n, phase, got, want)
			}
			if got := m.InsertRoom(mpa.FPDULen(n)); got != want-mpa.FPDULen(n) {
				t.Fatalf("ULPDU of %d octets at %d: InsertRoom = %d", n, phase, got)
			}
		}
	}
	if got := new(mpa.Inserter).FPDULen(0xffff); got != mpa.MaxMarkedFPDU {
		t.Errorf("MaxMarkedFPDU = %d, want %d", mpa.MaxMarkedFPDU, got)
	}
}

// The largest FPDUPTR of the longest ULPDU fits its field, wherever it begins.
func TestLargestPointer(t *testing.T) {
	u := make([]byte, mpa.MaxULPDU)
	for phase := range phases {
		m := insertAt(phase)
		fpdu := m.AppendFPDU(make([]byte, 0, mpa.MaxMarkedFPDU), u, false)
		if got := len(fpdu) - mpa.CRCLen; got > 0xffff {
			t.Fatalf("CRC at %d", got)
		}
		d := markedAt(false, phase)
		got, n, err := d.Next(fpdu)
		if err != nil || n != len(fpdu) || len(got) != mpa.MaxULPDU {
			t.Fatalf("at %d: %d octets, %d, %v", phase, len(got), n, err)
		}
	}
}

// marked returns a Deframer that expects markers.
func marked(crc bool) *mpa.Deframer {
	d := &mpa.Deframer{CRC: crc}
	d.ExpectMarkers()
	return d
}
