package engine

import (
	"bytes"
	"testing"
)

// TestCapability: anything that is not exactly a block belongs to the upper layer, and unknown features are ignored.
func TestCapability(t *testing.T) {
	for name, tt := range map[string]struct {
		block string
		ok    bool
		want  capability
	}{
		"ours":             {"stag\x01\x0c\x04\x00\x00\x00\x00\x01", true, capability{1024, 1}},
		"unknown features": {"stag\x01\x0c\x04\x00\xff\xff\xff\xf0", true, capability{1024, 0xfffffff0}},
		"no largest ULPDU": {"stag\x01\x0c\x00\x00\x00\x00\x00\x01", false, capability{}},
		"another magic":    {"stah\x01\x0c\x04\x00\x00\x00\x00\x01", false, capability{}},
		"another version":  {"stag\x02\x0c\x04\x00\x00\x00\x00\x01", false, capability{}},
		"another length":   {"stag\x01\x0d\x04\x00\x00\x00\x00\x01", false, capability{}},
		"in front":         {"stag\x01\x0c\x04\x00\x00\x00\x00\x01x", false, capability{}},
		"cut":              {"tag\x01\x0c\x04\x00\x00\x00\x00\x01", false, capability{}},
	} {
		rest, cp, ok := splitCapability([]byte("ulp" + tt.block))
		if ok != tt.ok || cp != tt.want || ok != (string(rest) == "ulp") {
			t.Errorf("%s: %q, %+v, %v", name, rest, cp, ok)
		}
	}
}

// FuzzCapability: the block is found exactly if append has appended it.
func FuzzCapability(f *testing.F) {
	f.Add([]byte{}, uint16(64768), uint32(1))
	f.Add(ownCapability(0).append([]byte("x")), uint16(0), uint32(0))
	f.Fuzz(func(t *testing.T, ulp []byte, mulpdu uint16, features uint32) {
		splitCapability(ulp)
		want := capability{mulpdu, features}
		rest, cp, ok := splitCapability(want.append(bytes.Clone(ulp)))
		if mulpdu == 0 { // takes no ULPDU: not a block
			if ok {
				t.Fatalf("taken: %+v", cp)
			}
			return
		}
		if !ok || cp != want || !bytes.Equal(rest, ulp) {
			t.Fatalf("got %x %+v %v", rest, cp, ok)
		}
	})
}
