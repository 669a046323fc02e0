package bench

import (
	"testing"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
)

// TestMain fails the package if a test leaks a goroutine.
func TestMain(m *testing.M) {
	ringSize = 256 << 10
	rdmaptest.Main(m)
}
