package mixtest_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stag-rdma/stag/internal/mixtest"
)

func ExampleOctets() {
	a, b := mixtest.Octets(1<<20), mixtest.Octets(1<<20)
	fmt.Println(len(a), string(a) == string(b))
	// Output: 1048576 true
}

// A model that fails when it meets 7 and later 9.
func ExampleShrink() {
	fails := func(in []byte) bool {
		_, rest, seven := bytes.Cut(in, []byte{7})
		return seven && bytes.IndexByte(rest, 9) >= 0
	}
	fmt.Println(mixtest.Shrink([]byte{1, 9, 2, 7, 3, 7, 4, 5, 9, 6}, fails))
	// Output: [7 9]
}

// TestRun: every run has a seed of its own.
func TestRun(t *testing.T) {
	calls, seen := 0, make(map[uint64]bool)
	mixtest.Run(t, func(_ *testing.T, seed uint64) { calls++; seen[seed] = true })
	if calls == 0 || len(seen) != calls || seen[0] {
		t.Errorf("%d runs, seeds %v", calls, seen)
	}
}
