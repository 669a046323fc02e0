package rdmap

import (
	"flag"
	"fmt"
	"testing"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
)

// TestMain fails the package if a test leaves a goroutine or memory of the pool behind.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // those that say so wait more than they work
	rdmaptest.Main(m, poolMemory)
}

func poolMemory() error {
	if n := DefaultPool.Used(); n != 0 {
		return fmt.Errorf("pool memory: %d octets", n)
	}
	return nil
}
