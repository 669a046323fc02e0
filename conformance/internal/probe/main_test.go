package probe_test

import (
	"flag"
	"testing"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // those that say so wait more than they work
	rdmaptest.Main(m)
}
