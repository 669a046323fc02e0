package pmemtest_test

import (
	"testing"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
)

// TestMain fails the package if a test leaves a goroutine behind.
func TestMain(m *testing.M) { rdmaptest.Main(m) }
