package mpa_test

import (
	"bytes"
	"testing"

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
