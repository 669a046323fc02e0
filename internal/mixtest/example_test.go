package mixtest_test

import (
	"fmt"
	"testing"

	"github.com/stag-rdma/stag/internal/mixtest"
)

func ExampleOctets() {
	a, b := mixtest.Octets(1<<20), mixtest.Octets(1<<20)
	fmt.Println(len(a), string(a) == string(b))
	// Output: 1048576 true
}

// TestRun: every run has a seed of its own.
func TestRun(t *testing.T) {
	calls, seen := 0, make(map[uint64]bool)
	mixtest.Run(t, func(_ *testing.T, seed uint64) { calls++; seen[seed] = true })
	if calls == 0 || len(seen) != calls || seen[0] {
		t.Errorf("%d runs, seeds %v", calls, seen)
	}
}
