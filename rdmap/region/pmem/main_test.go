package pmem_test

import (
	"fmt"
	"testing"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
)

// TestMain fails the package if a test leaves a goroutine or a pinned memory behind.
func TestMain(m *testing.M) { rdmaptest.Main(m, pinned) }

func pinned() error {
	if n := pmem.Pinned(); n != 0 {
		return fmt.Errorf("pinned memories: %d", n)
	}
	return nil
}
