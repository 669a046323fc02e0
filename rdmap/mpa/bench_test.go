package mpa_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stag-rdma/stag/rdmap/mpa"
)

func BenchmarkDeframer(b *testing.B) {
	for _, n := range []int{64, 1442, mpa.MaxULPDU} {
		for _, crc := range []bool{true, false} {
			b.Run(fmt.Sprintf("%d/crc=%v", n, crc), func(b *testing.B) {
				fpdu := mpa.AppendFPDU(nil, make([]byte, n), crc)
				d := mpa.Deframer{CRC: crc}
				b.SetBytes(int64(n))
				b.ReportAllocs()
				for b.Loop() {
					_, _, _ = d.Next(fpdu)
				}
			})
		}
	}
}

// With markers, every octet of an FPDU after its first marker is moved.
func BenchmarkDeframerMarked(b *testing.B) {
	for _, n := range []int{64, 1430, mpa.MaxULPDU} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			raw := new(mpa.Inserter).AppendFPDU(nil, make([]byte, n), true)
			fpdu := make([]byte, len(raw))
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				copy(fpdu, raw)
				d := marked(true)
				_, _, _ = d.Next(fpdu)
			}
		})
	}
}

func BenchmarkInsert(b *testing.B) {
	fpdu := mpa.AppendFPDU(nil, make([]byte, 1430), false)
	vec := make([][]byte, 64)
	for i := range vec {
		vec[i] = bytes.Clone(fpdu)
	}
	arena, out := make([]byte, 0, 4096), make([][]byte, 0, 512)
	var m mpa.Inserter
	b.SetBytes(64 * 1430)
	b.ReportAllocs()
	for b.Loop() {
		m.Insert(out, arena, vec, true)
	}
}

func BenchmarkAppendMarked(b *testing.B) {
	u, out := make([]byte, 1430), make([]byte, 0, 2048)
	var m mpa.Inserter
	b.SetBytes(1430)
	b.ReportAllocs()
	for b.Loop() {
		m.AppendFPDU(out, u, true)
	}
}
