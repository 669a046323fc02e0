package mpa_test

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/stag-rdma/stag/rdmap/mpa"
)

func ramp(from, step, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(from + i*step)
	}
	return b
}

func TestCRC(t *testing.T) {
	iscsi := "01c0000000000000000000000000000014000000000004000000001400000018" +
		"28000000000000000200000000000000"
	for _, tt := range []struct {
		name string
		in   []byte
		want uint32
		wire string
	}{
		{"empty", nil, 0, "00000000"},
		{"a", []byte("a"), 0xc1d04330, "3043d0c1"},
		{"check", []byte("123456789"), 0xe3069283, "839206e3"},
		{"zeros", make([]byte, 32), 0x8a9136aa, "aa36918a"},
		{"ones", bytes.Repeat([]byte{0xff}, 32), 0x62a8ab43, "43aba862"},
		{"up", ramp(0, 1, 32), 0x46dd794e, "4e79dd46"},
		{"down", ramp(31, -1, 32), 0x113fdb5c, "5cdb3f11"},
		{"iscsi", unhex(t, iscsi), 0xd9963a56, "563a96d9"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := mpa.UpdateCRC(0, tt.in)
			if got != tt.want {
				t.Errorf("got %08x, want %08x", got, tt.want)
			}
			if wire := mpa.AppendCRC(nil, got); !bytes.Equal(wire, unhex(t, tt.wire)) || mpa.ReadCRC(wire) != got {
				t.Errorf("wire %x, want %s", wire, tt.wire)
			}
		})
	}
}

// slowCRC is the division of RFC 5044 Section 4.4, bit by bit and not reflected.
func slowCRC(b []byte) uint32 {
	reg := ^uint32(0)
	for _, x := range b {
		for bit := range 8 {
			in := uint32(x>>bit) & 1
			top := reg >> 31
			reg <<= 1
			if top^in == 1 {
				reg ^= 0x1edc6f41
			}
		}
	}
	var out uint32
	for i := range 32 {
		out |= (reg >> i & 1) << (31 - i)
	}
	return ^out
}

func TestCRCPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "b")
		cut := rapid.IntRange(0, len(b)).Draw(t, "cut")
		want := slowCRC(b)
		if got := mpa.UpdateCRC(0, b); got != want {
			t.Fatalf("got %08x, want %08x", got, want)
		}
		if got := mpa.UpdateCRC(mpa.UpdateCRC(0, b[:cut]), b[cut:]); got != want {
			t.Fatalf("cut at %d: got %08x, want %08x", cut, got, want)
		}
	})
}
