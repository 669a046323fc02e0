package region_test

import (
	"math"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
)

// No sum overflows.
func TestWithin(t *testing.T) {
	for _, r := range []region.Range{{Off: 0, N: 8}, {Off: 8, N: 0}, {Off: 7, N: 1}} {
		if !region.AllWithin([]region.Range{{}, r}, 8) {
			t.Errorf("%v is inside", r)
		}
	}
	for _, r := range []region.Range{
		{Off: -1, N: 1}, {Off: 0, N: -1}, {Off: 9, N: 0}, {Off: 7, N: 2}, {Off: 1, N: math.MaxInt}, {Off: math.MaxInt, N: math.MaxInt}, {Off: math.MinInt, N: 8},
	} {
		if region.AllWithin([]region.Range{{}, r}, 8) {
			t.Errorf("%v is outside", r)
		}
	}
}
