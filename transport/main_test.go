package transport_test

import (
	"fmt"
	"testing"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/transport/internal/mem"
)

// TestMain fails when a goroutine or a pooled buffer outlives the tests.
func TestMain(m *testing.M) { rdmaptest.Main(m, pooled) }

func pooled() error {
	if n := mem.Shared.Live(); n != 0 {
		return fmt.Errorf("pooled buffers: %d", n)
	}
	return nil
}
