package mpa_test

import (
	"bytes"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/rdmap/mpa"
)

type vector struct {
	name string
	fpdu []byte
}

// vectors reads testdata/vectors/fpdu.hex.
func vectors(t testing.TB) []vector {
	t.Helper()
	text, err := os.ReadFile("testdata/vectors/fpdu.hex")
	if err != nil {
		t.Fatal(err)
	}
	var vs []vector
	for line := range strings.Lines(string(text)) {
		name, h, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || name == "#" {
			continue
		}
		vs = append(vs, vector{name, unhex(t, h)})
	}
	if len(vs) != 29 {
		t.Fatalf("%d vectors, want 29", len(vs))
	}
	return vs
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ulpdu returns the ULPDU of an FPDU without using the package.
func (v vector) ulpdu() []byte {
	n := int(v.fpdu[0])<<8 | int(v.fpdu[1])
	return v.fpdu[2 : 2+n]
}

func TestVectors(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(v.name, func(t *testing.T) {
			d := mpa.Deframer{CRC: true}
			ulpdu, n, err := d.Next(v.fpdu)
			if err != nil || n != len(v.fpdu) || !bytes.Equal(ulpdu, v.ulpdu()) {
				t.Fatalf("Next = %x, %d, %v", ulpdu, n, err)
			}
			if v.name == "send-pad" {
				return // a sender must not do this
			}
			if got := mpa.AppendFPDU(nil, v.ulpdu(), true); !bytes.Equal(got, v.fpdu) {
				t.Errorf("AppendFPDU\n got %x\nwant %x", got, v.fpdu)
			}
		})
	}
}

// ramp returns n octets that begin with from and go on in steps.
func ramp(from, step, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(from + i*step)
	}
	return b
}
