package ddp_test

import (
	"bytes"
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

func TestSegmentVectors(t *testing.T) {
	us := ulpdus(t)
	for _, tt := range []struct {
		name string
		want ddp.Segment
	}{
		{"write", ddp.Segment{Tagged: true, Last: true, DV: 1, Control: 0x40, STag: 0x11223344, TO: 0x100000000}},
		{"read-response", ddp.Segment{Tagged: true, Last: true, DV: 1, Control: 0x42, STag: 0xaabbccdd, TO: 0x2000}},
		{"read-request", ddp.Segment{Last: true, DV: 1, Control: 0x41, QN: 1, MSN: 1}},
		{"send", ddp.Segment{Last: true, DV: 1, Control: 0x43, MSN: 1}},
		{"send-empty", ddp.Segment{Last: true, DV: 1, Control: 0x43, MSN: 2}},
		{"send-invalidate", ddp.Segment{Last: true, DV: 1, Control: 0x44, ULP: 0x11223344, MSN: 3}},
		{"terminate-stag", ddp.Segment{Last: true, DV: 1, Control: 0x47, QN: 2, MSN: 1}},
		{"atomic-response", ddp.Segment{Last: true, DV: 1, Control: 0x4b, QN: 3, MSN: 1}},
		{"atomic-write-response", ddp.Segment{Last: true, DV: 1, Control: 0x51, QN: 3, MSN: 7}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got ddp.Segment
			if !got.Parse(us[tt.name]) || got != tt.want {
				t.Fatalf("got  %v\nwant %v", &got, &tt.want)
			}
		})
	}
	for name, u := range us {
		var s ddp.Segment
		if !s.Parse(u) {
			t.Fatalf("%s: too short", name)
		}
		if got := s.Append(nil); !bytes.Equal(got, u[:s.HeaderLen()]) {
			t.Errorf("%s: got %x, want %x", name, got, u[:s.HeaderLen()])
		}
		for cut := range s.HeaderLen() {
			if s.Parse(u[:cut]) {
				t.Errorf("%s cut at %d accepted", name, cut)
			}
		}
	}
}

func TestSTag(t *testing.T) {
	s := ddp.STag(0x11223344)
	if s.Index() != 0x112233 || s.Key() != 0x44 || s.String() != "11223344" {
		t.Errorf("%x %x %v", s.Index(), s.Key(), s)
	}
}
