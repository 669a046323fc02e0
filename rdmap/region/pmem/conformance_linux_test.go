package pmem_test

import (
	"testing"

	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
)

func TestMmap(t *testing.T) {
	g := fileTarget(pmem.Mmap)
	g.Sync, g.Mapped = pmem.OpMsync, true
	pmemtest.Run(t, g)
}

// The write-back instructions are real, but only pretend to be enough here.
func TestDAX(t *testing.T) {
	pmem.PretendDAX(t)
	g := fileTarget(pmem.DAX)
	g.Sync, g.Mapped = pmem.OpWriteBack, true
	pmemtest.Run(t, g)
}
