package rdmap

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/rdmap/verbs"
)

// siwTerminates are the first octets of Terminates as siw of Linux 6.1 sends them, with their intended meaning (rdmap.md
// Section 12).
var siwTerminates = []struct {
	octets string
	want   verbs.TermCode // the swapped reading
}{
	{"02020000", verbs.TermCode{Layer: 2, EType: 0, Code: 2}},
	{"02060000", verbs.TermCode{Layer: 2, EType: 0, Code: 6}},
	{"21060000", verbs.TermCode{Layer: 1, EType: 2, Code: 6}},
	{"20050000", verbs.TermCode{Layer: 0, EType: 2, Code: 5}},
	{"20060000", verbs.TermCode{Layer: 0, EType: 2, Code: 6}},
	{"21010300" + "0000" + "414300000000000000070000000100000000", verbs.TermCode{Layer: 1, EType: 2, Code: 1}},
	{"21020300" + "0000" + "414300000000000000000000000100000000", verbs.TermCode{Layer: 1, EType: 2, Code: 2}},
	{"11000300" + "0010" + "c140112233440000000000000000", verbs.TermCode{Layer: 1, EType: 1, Code: 0}},
	{"10000700" + "0000" + "414100000000000000010000000100000000" +
		"aabbccdd000000000000200000001000112233440000000000001000", verbs.TermCode{Layer: 0, EType: 1, Code: 0}},
}

func TestSiwTerminates(t *testing.T) {
	for _, s := range siwTerminates {
		b := unhex(t, s.octets)
		x, err := verbs.ParseTerminate(b)
		if err != nil {
			t.Errorf("%s: %v", s.octets, err)
			continue
		}
		if x.Swapped() != s.want {
			t.Errorf("%s: read as %v, swapped %v, want %v", s.octets, x.Code, x.Swapped(), s.want)
		}
		if d := b[2]&2 != 0; d != (x.DDP != nil) {
			t.Errorf("%s: DDP header %x", s.octets, x.DDP)
		}
		if r := b[2]&4 != 0; r != (x.Read != nil) {
			t.Errorf("%s: Read Request header %x", s.octets, x.Read)
		}
		if s.want != x.Code && !strings.Contains(x.String(), s.want.String()) {
			t.Errorf("%s: String %q does not give siw's reading", s.octets, x.String())
		}
	}
}

// TestTerminatePrefixes: every prefix that cuts an announced part fails, and what follows the parts is ignored.
func TestTerminatePrefixes(t *testing.T) {
	for _, v := range []string{goldTermRead, goldTermSTag, goldTermBuf} {
		full := ulpduOf(t, unhex(t, v))[18:]
		for n := range len(full) {
			if _, err := verbs.ParseTerminate(full[:n]); !errors.Is(err, verbs.ErrTerminateShort) {
				t.Errorf("%d octets of %x: %v", n, full, err)
			}
		}
		x, err := verbs.ParseTerminate(append(bytes.Clone(full), 1, 2, 3))
		if err != nil || hex.EncodeToString(x.Append(nil)) != hex.EncodeToString(full) {
			t.Fatalf("%v, %x", err, x.Append(nil))
		}
		x.HasLength = false // a header implies it
		if got := x.Append(nil); !bytes.Equal(got, full) || x.Size() != len(full) {
			t.Errorf("without HasLength: %x, %d octets", got, x.Size())
		}
	}
}

// TestReservedBits: the 13 reserved bits are ignored on receipt; three of them have siw's meaning, but only if the length
// fits.
func TestReservedBits(t *testing.T) {
	for _, s := range []string{"01001fff", "010007ff", "0100e0ff" + "0010" + "c140112233440000000000000000" + strings.Repeat("00", 28)} {
		x, err := verbs.ParseTerminate(unhex(t, s))
		if err != nil || x.Code != (verbs.TermCode{Layer: 0, EType: 1, Code: 0}) {
			t.Errorf("%s: %v %v", s, x.Code, err)
		}
	}
}

// TestTermCodes: the names are those of RFC 5040 Section 4.8 and RFC 6580 Section 3,
// and nothing else is registered.
func TestTermCodes(t *testing.T) {
	n := 0
	for layer := range uint8(16) {
		for etype := range uint8(16) {
			for code := range 256 {
				c := verbs.TermCode{Layer: layer, EType: etype, Code: uint8(code)}
				if c.Registered() {
					n++
				} else if strings.Contains(c.String(), " ") {
					t.Errorf("%v has a name", c)
				}
			}
		}
	}
	if want := 13 + 256 + 12 + 256 + 7; n != want {
		t.Errorf("%d codes registered, want %d", n, want)
	}
	if s := (verbs.TermCode{Layer: 1, EType: 2, Code: 5}).String(); s != "0x1/0x2/0x05 untagged, message too long" {
		t.Error(s)
	}
}
