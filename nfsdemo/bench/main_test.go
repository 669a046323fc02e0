package bench

import (
	"testing"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
)

// TestMain fails the package when a test leaves a goroutine behind.
func TestMain(m *testing.M) {
	ringSize = 256 << 10
	rdmaptest.Main(m)
}
