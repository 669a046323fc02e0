package mpa_test

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/stag-rdma/stag/rdmap/mpa"
)

// markedWriters are the ways to send FPDUs with markers.
var markedWriters = map[string]func(m *mpa.Inserter, ulpdus [][]byte, crc bool) []byte{
	"append": func(m *mpa.Inserter, ulpdus [][]byte, crc bool) (b []byte) {
		for _, u := range ulpdus {
			b = m.AppendFPDU(b, u, crc)
		}
		return b
	},
	"insert": func(m *mpa.Inserter, ulpdus [][]byte, crc bool) []byte {
		return insertMarked(m, ulpdus, crc, func() int { return 100 })
	},
}

// insertMarked builds FPDUs without markers and with garbage as CRC, and inserts the markers into entries
// of any size, with one call for every three.
func insertMarked(m *mpa.Inserter, ulpdus [][]byte, crc bool, size func() int) []byte {
	var plain []byte
	for _, u := range ulpdus {
		plain = mpa.AppendFPDU(plain, u, true)
		clear(plain[len(plain)-mpa.CRCLen:])
	}
	arena := dirty(m.InsertRoom(len(plain)))
	var vec, out [][]byte
	for at := 0; at < len(plain); {
		n := min(max(0, size()), len(plain)-at)
		vec = append(vec, plain[at:at+n])
		at += n
		if len(vec) == 3 {
			out, arena = m.Insert(out, arena, vec, crc)
			vec = vec[:0]
		}
	}
	out, arena = m.Insert(out, arena, vec, crc)
	if len(arena) != cap(arena) {
		panic("InsertRoom")
	}
	return bytes.Join(out, nil)
}

// drawULPDUs draws ULPDUs of which many end near a marker.
func drawULPDUs(t *rapid.T) (ulpdus [][]byte) {
	for i := range rapid.IntRange(0, 12).Draw(t, "n") {
		n := rapid.OneOf(rapid.IntRange(0, 40), rapid.IntRange(480, 530), rapid.IntRange(0, 3000)).Draw(t, "len")
		ulpdus = append(ulpdus, ramp(i, 5, n))
	}
	return ulpdus
}

// The payload is lent, not copied, and only the CRC fields are written.
func TestInsertBorrows(t *testing.T) {
	a := mpa.AppendFPDU(nil, ramp(0, 1, 700), false)
	keep := bytes.Clone(a)
	var m mpa.Inserter
	out, _ := m.Insert(nil, make([]byte, 0, 8), [][]byte{a}, true)
	// marker, 508 octets, marker, the rest
	if len(out) != 4 || &out[1][0] != &a[0] || &out[3][0] != &a[508] || cap(out[1]) != 508 {
		t.Fatalf("%d entries", len(out))
	}
	n := len(a) - mpa.CRCLen
	if !bytes.Equal(a[:n], keep[:n]) || bytes.Equal(a[n:], keep[n:]) {
		t.Error("more than the CRC was written")
	}
}
