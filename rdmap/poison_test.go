package rdmap_test

import (
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
)

// TestPoison: instrumented builds overwrite memory that is given back, so that a later use of it is noticed.
func TestPoison(t *testing.T) {
	b := make(buf.Mem, 8)
	p := buf.NewPool(100)
	p.Put(b)
	if rdmaptest.Poisoning && b[3] != 0xcc {
		t.Fatal("not poisoned")
	}
}
