package decode

import (
	"slices"
	"testing"

	"github.com/stag-rdma/stag/rdmap/mpa"
)

// TestEvidence: what proves that FPDUs begin at an offset.
func TestEvidence(t *testing.T) {
	send := func(msn byte, crc bool) []byte {
		return mpa.AppendFPDU(nil, append([]byte{0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, msn, 0, 0, 0, 0}, "hello"...), crc)
	}
	write := func(tag, to byte, last byte) []byte {
		return mpa.AppendFPDU(nil, append([]byte{0x81 | last, 0x40, 0, 0, 0, tag, 0, 0, 0, 0, 0, 0, 0, to}, "12345678"...), false)
	}
	for _, tt := range []struct {
		name       string
		b          [][]byte
		crc        bool
		ok, proved bool
	}{
		{"nothing", nil, false, true, false},
		{"a Send", [][]byte{send(1, false)}, false, true, false},
		{"a Send with a right CRC", [][]byte{send(1, true)}, false, true, true},
		{"a Send with a wrong CRC", [][]byte{send(1, false)}, true, false, false},
		{"two Sends", [][]byte{send(1, false), send(2, false)}, false, true, true},
		{"a Write", [][]byte{write(1, 0, 0)}, false, true, false},
		{"two Writes of nothing common", [][]byte{write(1, 0, 0), write(2, 0, 0)}, false, true, false},
		{"two segments of a Write", [][]byte{write(1, 0, 0), write(1, 8, 0)}, false, true, true},
		{"two Writes to one STag", [][]byte{write(1, 0, 0x40), write(1, 8, 0)}, false, true, false},
		{"five Writes", [][]byte{write(1, 0, 0x40), write(2, 0, 0x40), write(3, 0, 0x40), write(4, 0, 0x40), write(5, 0, 0)}, false, true, true},
		{"a Write, then zeros", [][]byte{write(1, 0, 0x40), make([]byte, 40)}, false, false, false},
	} {
		e, ok := weigh(slices.Concat(tt.b...), tt.crc)
		if ok != tt.ok || ok && e.proved() != tt.proved {
			t.Errorf("%s: %t, proved %t, %+v", tt.name, ok, e.proved(), e)
		}
	}
}
