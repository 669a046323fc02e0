package engine

import (
	"bytes"
	"testing"
)

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
