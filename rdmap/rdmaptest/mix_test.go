package rdmaptest_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
)

func ExampleOctets() {
	a, b := rdmaptest.Octets(1<<20), rdmaptest.Octets(1<<20)
	fmt.Println(len(a), string(a) == string(b))
	// Output: 1048576 true
}

// A model that fails when it meets 7 and later 9.
func ExampleShrink() {
	fails := func(in []byte) bool {
		_, rest, seven := bytes.Cut(in, []byte{7})
		return seven && bytes.IndexByte(rest, 9) >= 0
	}
	fmt.Println(rdmaptest.Shrink([]byte{1, 9, 2, 7, 3, 7, 4, 5, 9, 6}, fails))
	// Output: [7 9]
}

// TestMix: every run has a seed of its own.
func TestMix(t *testing.T) {
	calls, seen := 0, make(map[uint64]bool)
	rdmaptest.Mix(t, func(_ *testing.T, seed uint64) { calls++; seen[seed] = true })
	if calls == 0 || len(seen) != calls || seen[0] {
		t.Errorf("%d runs, seeds %v", calls, seen)
	}
}
