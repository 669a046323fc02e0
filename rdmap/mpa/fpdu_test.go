package mpa_test

import (
	"bytes"
	"testing"

	"github.com/stag-rdma/stag/rdmap/mpa"
)

// dirty returns an empty slice over memory that is not zero.
func dirty(n int) []byte { return bytes.Repeat([]byte{0xa5}, n)[:0] }

func TestAppendFPDU(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 4, 5, 13, 14, 17, 18, 1442, mpa.MaxULPDU, 0xffff} {
		for _, crc := range []bool{true, false} {
			ulpdu := ramp(n, 7, n)
			want := oracleFPDU(ulpdu, crc)
			got := mpa.AppendFPDU(append(dirty(mpa.MaxFPDU+3), "xyz"...), ulpdu, crc)
			if !bytes.Equal(got[3:], want) {
				t.Fatalf("AppendFPDU of %d octets, crc %v: got %x", n, crc, got[3:])
			}
		}
	}
}

// oracleFPDU lays out an FPDU octet by octet.
func oracleFPDU(ulpdu []byte, crc bool) []byte {
	b := []byte{byte(len(ulpdu) >> 8), byte(len(ulpdu))}
	b = append(b, ulpdu...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	var sum uint32
	if crc {
		sum = mpa.UpdateCRC(0, b) // slowCRC judges it elsewhere
	}
	for i := range 4 {
		b = append(b, byte(sum>>(8*i)))
	}
	return b
}

func TestWriterMisuse(t *testing.T) {
	for name, f := range map[string]func(){
		"append marked": func() { new(mpa.Inserter).AppendFPDU(nil, make([]byte, mpa.MaxULPDU+1), false) },
		"insert":        func() { new(mpa.Inserter).Insert(nil, make([]byte, 0, 999), [][]byte{{0xff, 0xff}}, false) },
		"insert room":   func() { new(mpa.Inserter).Insert(nil, make([]byte, 0, 3), [][]byte{{0}}, false) },

		"header":   func() { mpa.AppendHeader(nil, 0x10000) },
		"negative": func() { mpa.AppendHeader(nil, -1) },
		"append":   func() { mpa.AppendFPDU(nil, make([]byte, 0x10000), false) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}
