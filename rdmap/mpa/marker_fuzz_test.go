package mpa_test

import (
	"bytes"
	"testing"

	"github.com/stag-rdma/stag/rdmap/mpa"
)

// Any octets in any pieces, with markers: the result is that of the oracle, which strips by position.
func FuzzMarkedDeframer(f *testing.F) {
	for _, v := range markedVectors(f) {
		if v.pos == 0 {
			f.Add(oracleStream(0, v.ulpdus, true), []byte{1, 2, 30}, true)
			f.Add(oracleStream(0, v.ulpdus, false), []byte{200}, false)
		}
	}
	f.Add(make([]byte, 600), []byte{5}, false)
	f.Add([]byte{0, 0, 0, 0, 0xff, 0xff, 0, 0}, []byte{0}, true)
	f.Fuzz(func(t *testing.T, stream, sizes []byte, crc bool) {
		checkStrip(t, stream, crc, cutter(sizes))
	})
}

// cutter returns the sizes in turn, for ever.
func cutter(sizes []byte) func() int {
	at := 0
	return func() int {
		if len(sizes) == 0 {
			return 1
		}
		at++
		return int(sizes[at%len(sizes)])
	}
}

// ULPDUs of any lengths: all writers agree with the sender loop of the RFC. What they write is read back,
// however it is cut, even if some FPDUs are unread.
func FuzzMarkedRoundTrip(f *testing.F) {
	f.Add([]byte{1, 244, 0, 20}, []byte{7, 0}, true)
	f.Add([]byte{1, 250, 1, 246, 1, 0, 4, 0}, []byte{255}, false)
	f.Fuzz(func(t *testing.T, lens, sizes []byte, crc bool) {
		var ulpdus [][]byte
		for i := 0; i+1 < min(len(lens), 32); i += 2 {
			ulpdus = append(ulpdus, ramp(i, 3, (int(lens[i])<<8|int(lens[i+1]))&0x0fff))
		}
		want := oracleStream(0, ulpdus, crc)
		for name, w := range markedWriters {
			if got := w(new(mpa.Inserter), ulpdus, crc); !bytes.Equal(got, want) {
				t.Fatalf("%s: %x\nwant %x", name, got, want)
			}
		}
		if got := insertMarked(new(mpa.Inserter), ulpdus, crc, cutter(append(sizes, 1))); !bytes.Equal(got, want) {
			t.Fatalf("insert: %x\nwant %x", got, want)
		}
		checkStrip(t, want, crc, cutter(sizes))
		d := marked(crc)
		for _, u := range ulpdus {
			for again := range 2 {
				got, n, err := d.Next(want)
				if err != nil || !bytes.Equal(got, u) {
					t.Fatalf("%d octets, %v", n, err)
				}
				if again == 0 {
					d.Unread()
				} else {
					want = want[n:]
				}
			}
		}
	})
}
