package ddp_test

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/rdmap/ddp"
)

// ulpdus returns the ULPDUs of the vectors beside package mpa, by name.
func ulpdus(t testing.TB) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile("../mpa/testdata/vectors/fpdu.hex")
	if err != nil {
		t.Fatal(err)
	}
	m := map[string][]byte{}
	for line := range strings.Lines(string(text)) {
		name, h, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || name == "#" {
			continue
		}
		b, err := hex.DecodeString(h)
		if err != nil {
			t.Fatal(err)
		}
		m[name] = b[2 : 2+int(b[0])<<8+int(b[1])]
	}
	return m
}

func TestSTag(t *testing.T) {
	if s := ddp.STag(0x11223344); s.String() != "11223344" {
		t.Error(s)
	}
}

func TestMaxPayload(t *testing.T) {
	for _, tt := range []struct{ mulpdu, tagged, untagged int }{
		{1442, 1428, 1424}, // observed from Linux
		{1500, 1484, 1480},
		{64768, 64752, 64748},
		{128, 112, 108},
		{0, 4, 4},
	} {
		if got := ddp.MaxPayload(true, tt.mulpdu); got != tt.tagged {
			t.Errorf("tagged %d: %d", tt.mulpdu, got)
		}
		if got := ddp.MaxPayload(false, tt.mulpdu); got != tt.untagged {
			t.Errorf("untagged %d: %d", tt.mulpdu, got)
		}
	}
}
