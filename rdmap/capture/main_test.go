package capture_test

import (
	"testing"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
)

func TestMain(m *testing.M) { rdmaptest.Main(m) }
