package rdmaptest_test

import (
	"testing"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
)

// TestMix: every run has a seed of its own.
func TestMix(t *testing.T) {
	calls, seen := 0, make(map[uint64]bool)
	rdmaptest.Mix(t, func(_ *testing.T, seed uint64) { calls++; seen[seed] = true })
	if calls == 0 || len(seen) != calls || seen[0] {
		t.Errorf("%d runs, seeds %v", calls, seen)
	}
}
