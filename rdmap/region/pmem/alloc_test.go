package pmem_test

import (
	"testing"

	"github.com/stag-rdma/stag/rdmap/region/pmem"
)

// The engine places with Store and Load: no allocation.
func TestAllocs(t *testing.T) {
	m := open(t, pmem.File, newFile(t, 4096), nil)
	defer m.Close()
	p := make([]byte, 64)
	if n := testing.AllocsPerRun(100, func() { _, _ = m.Store(0, p), m.Load(p, 0) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
