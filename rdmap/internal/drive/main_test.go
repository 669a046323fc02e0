package drive_test

import (
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/conntest"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
)

// TestMain fails the package if a test leaves a goroutine or memory of the pool behind.
func TestMain(m *testing.M) { rdmaptest.Main(m, conntest.PoolMemory) }
