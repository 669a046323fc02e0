package push

import (
	"errors"
	"io"
	"sync"

	"github.com/stag-rdma/stag/rdmap/region"
)

// reporting is the memory of a log; it tells the first error of the medium, after which the log takes nothing more.
type reporting struct {
	region.Memory
	guard region.Guarded // Memory, if it is one

	once   sync.Once
	failed func(error)
}

var (
	_ region.Guarded        = (*reporting)(nil)
	_ region.RangePersister = (*reporting)(nil)
	_ region.ReadBacker     = (*reporting)(nil)
)

// reportTo wraps mem, which still belongs to the caller.
func reportTo(failed func(error), mem region.Memory) region.Memory {
	b := &reporting{Memory: mem, failed: failed}
	b.guard, _ = mem.(region.Guarded)
	if w, ok := mem.(region.Watched); ok {
		return &reportingWatched{b, w}
	}
	return b
}

// fail reports the first error.
func (b *reporting) fail(err error) error {
	if err != nil {
		b.once.Do(func() { b.failed(err) })
	}
	return err
}

// Persist implements region.Memory.
func (b *reporting) Persist(off, n int) error {
	if n == 0 {
		return b.Memory.Persist(off, n) // asks whether the memory is persistent: no failure of it
	}
	return b.fail(b.Memory.Persist(off, n))
}

// PersistRanges implements region.RangePersister.
func (b *reporting) PersistRanges(rs []region.Range) error {
	return b.fail(region.PersistRanges(b.Memory, rs))
}

// Store implements region.Guarded.
func (b *reporting) Store(off int, p []byte) error {
	if b.guard == nil {
		copy(b.Bytes()[off:off+len(p)], p)
		return nil
	}
	return b.fail(b.guard.Store(off, p))
}

// Load implements region.Guarded.
func (b *reporting) Load(p []byte, off int) error {
	if b.guard == nil {
		copy(p, b.Bytes()[off:off+len(p)])
		return nil
	}
	return b.fail(b.guard.Load(p, off))
}

// ReadBack implements region.ReadBacker: octets are read back to be hashed. That the medium cannot be read back is
// no failure of it.
func (b *reporting) ReadBack(w io.Writer, off, n int) error {
	err := region.ReadBack(b.Memory, w, off, n)
	if errors.Is(err, region.ErrNotVerifiable) {
		return err
	}
	return b.fail(err)
}

// Verifiable implements region.ReadBacker.
func (b *reporting) Verifiable() error { return region.Verifiable(b.Memory) }

// Guard implements region.Guarded.
func (b *reporting) Guard(off, n int, f func() error) error {
	if b.guard == nil {
		return f()
	}
	return b.fail(b.guard.Guard(off, n, f))
}

// reportingWatched is reporting for memory that is Watched.
type reportingWatched struct {
	*reporting
	watched region.Watched
}

var _ region.Watched = (*reportingWatched)(nil)

// Failed implements region.Watched.
func (b *reportingWatched) Failed() <-chan struct{} { return b.watched.Failed() }

// Err implements region.Watched.
func (b *reportingWatched) Err() error { return b.watched.Err() }
