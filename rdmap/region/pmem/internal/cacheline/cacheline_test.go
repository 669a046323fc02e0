package cacheline_test

import (
	"testing"

	"github.com/stag-rdma/stag/rdmap/region/pmem/internal/cacheline"
)

func TestLines(t *testing.T) {
	for _, tt := range []struct {
		addr  uintptr
		n     int
		first uintptr
		count int
	}{
		{0, 0, 0, 0},
		{128, -1, 128, 0},
		{128, 1, 128, 1},
		{128, 64, 128, 1},
		{128, 65, 128, 2},
		{191, 1, 128, 1},
		{191, 2, 128, 2},
		{190, 68, 128, 3},
		{4096, 4096, 4096, 64},
	} {
		if first, count := cacheline.Lines(tt.addr, tt.n); first != tt.first || count != tt.count {
			t.Errorf("Lines(%d, %d) = %d, %d, want %d, %d", tt.addr, tt.n, first, count, tt.first, tt.count)
		}
	}
}
