package main

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
)

// TestInfoGolden: the first two Sends of the client in testdata/pcaps/a-rping.pcap.
func TestInfoGolden(t *testing.T) {
	for wire, want := range map[string]pingInfo{
		"000056213284645009289300" + "00000040":           {Addr: 0x562132846450, RKey: 0x09289300, Len: 64},
		"000056213284" + "3120" + "5fe5a500" + "00000040": {Addr: 0x562132843120, RKey: 0x5fe5a500, Len: 64},
		"00000000000000000000000000000000":                {},
	} {
		b := must(hex.DecodeString(wire))(t)
		got, err := parseInfo(b)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", wire, got, err, want)
		}
		if enc := want.Append([]byte{7}); !bytes.Equal(enc[1:], b) || enc[0] != 7 {
			t.Errorf("%+v: % x, want % x", want, enc[1:], b)
		}
	}
}

func TestInfoLength(t *testing.T) {
	b := pingInfo{Addr: 1, RKey: region.STag(2), Len: 3}.Append(nil)
	for n := range len(b) {
		if _, err := parseInfo(b[:n]); !errors.Is(err, errPing) {
			t.Errorf("%d octets: %v", n, err)
		}
	}
	if _, err := parseInfo(append(b, 0)); !errors.Is(err, errPing) {
		t.Errorf("17 octets: %v", err)
	}
}
