package rdmap_test

import (
	"flag"
	"testing"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
)

// TestMain fails the package if a test leaves a goroutine or memory of the pool behind.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // those that say so wait more than they work
	rdmaptest.Main(m, PoolMemory)
}
