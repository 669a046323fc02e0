package bench_test

import (
	"testing"

	"github.com/stag-rdma/stag/internal/rdmaptest"
	"github.com/stag-rdma/stag/nfsdemo/internal/bench"
)

// TestMain fails the package if a test leaks a goroutine.
func TestMain(m *testing.M) {
	(*bench.RingSize) = 256 << 10
	rdmaptest.Main(m)
}
