package capture_test

import (
	"testing"

	"github.com/stag-rdma/stag/internal/rdmaptest"
)

func TestMain(m *testing.M) { rdmaptest.Main(m) }
