package engine_test

import (
	"slices"
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/engine"
)

// TestKeepaliveTicks: a silent peer gets two keepalives, and one that has sent anything gets no more.
func TestKeepaliveTicks(t *testing.T) {
	for heardAt, want := range map[int][]int{1: nil, 6: {5}, 25: {5}, 26: {5, 25}, 1000: {5, 25}} {
		var k engine.Keepalive
		var got []int
		ticks := 0
		for more := true; more; {
			ticks++
			var due bool
			if due, more = k.Tick(ticks >= heardAt); due {
				got = append(got, ticks)
			}
		}
		if !slices.Equal(got, want) || ticks != min(heardAt, 25) {
			t.Errorf("heard at tick %d: keepalives at %v, %d ticks, want %v", heardAt, got, ticks, want)
		}
	}
}
