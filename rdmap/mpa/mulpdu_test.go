package mpa_test

import (
	"testing"

	"github.com/stag-rdma/stag/rdmap/mpa"
)

func TestMULPDU(t *testing.T) {
	for _, tt := range []struct{ emss, off, on int }{
		{536, 530, 522},
		{1448, 1442, 1430},
		{1460, 1454, 1442},
		{8948, 8942, 8870},
		{0, 128, 128},
		{140, 134, 130},
		{128, 128, 128},
		{-7, 128, 128},
		{1 << 20, 64768, 64768},
	} {
		if got := mpa.MULPDU(tt.emss, false); got != tt.off {
			t.Errorf("MULPDU(%d, false) = %d, want %d", tt.emss, got, tt.off)
		}
		if got := mpa.MULPDU(tt.emss, true); got != tt.on {
			t.Errorf("MULPDU(%d, true) = %d, want %d", tt.emss, got, tt.on)
		}
	}
}

// The FPDU of a full ULPDU never exceeds the EMSS, whatever the phase of the markers.
func TestMULPDUFits(t *testing.T) {
	for emss := 160; emss < 10000; emss++ {
		if n := mpa.FPDULen(mpa.MULPDU(emss, false)); n > emss {
			t.Fatalf("EMSS %d: FPDU of %d octets", emss, n)
		}
		n := mpa.FPDULen(mpa.MULPDU(emss, true))
		for phase := 0; phase < 512; phase += 4 {
			total := 0
			for left, pos := n, phase; left > 0; left, pos = left-4, pos+4 {
				if pos%512 == 0 {
					total, pos = total+4, pos+4
				}
				total += 4
			}
			if total > emss {
				t.Fatalf("EMSS %d, phase %d: FPDU of %d octets with markers", emss, phase, total)
			}
		}
		emss += 6 // every residue modulo 4 and 512, not every value
	}
}
