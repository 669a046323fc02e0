package pmemtest

import (
	"io"

	"github.com/stag-rdma/stag/rdmap/region/pmem"

	"github.com/stag-rdma/stag/rdmap/region"
)

// Wrapped is a memory whose Persist can be made to fail or hang.
type Wrapped struct {
	region.Memory
	f *Faults
}

// Wrap puts f before the Persist of m, as the operation Persist. It hides what m can do beyond
// region.Memory and region.ReadBacker, and makes no error final: m has to do that, or the code under test.
func Wrap(m region.Memory, f *Faults) *Wrapped { return &Wrapped{m, f} }

// ReadBack reads the medium of the memory.
func (w *Wrapped) ReadBack(to io.Writer, off, n int) error {
	return region.ReadBack(w.Memory, to, off, n)
}

// Verifiable is that of the memory.
func (w *Wrapped) Verifiable() error { return region.Verifiable(w.Memory) }

// Persist fails as planned; otherwise it calls Persist of the memory.
func (w *Wrapped) Persist(off, n int) error {
	if err := w.f.Before(pmem.OpPersist); err != nil {
		return err
	}
	return w.Memory.Persist(off, n)
}
