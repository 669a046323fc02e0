package push

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/internal/mutant"
	"github.com/stag-rdma/stag/rdmap/region"
)

// longestWait is how long one request waits for the budget of its log at most, because a fence
// waits for a running request.
const longestWait = 50 * time.Millisecond

// budgeted is the memory of a log. It counts flushes and hashes, and slows them down beyond the
// budget. It also reports that the memory has failed.
type budgeted struct {
	region.Memory
	guard   region.Guarded // Memory, if it is one
	flushes rate
	hashed  rate
	slowed  *atomic.Uint64

	once   sync.Once
	failed func(error)
}

var (
	_ region.Guarded        = (*budgeted)(nil)
	_ region.RangePersister = (*budgeted)(nil)
	_ region.ReadBacker     = (*budgeted)(nil)
)

// newBudgeted wraps mem, which still belongs to the caller.
func newBudgeted(mem region.Memory, l *Limits, slowed *atomic.Uint64, failed func(error)) region.Memory {
	b := &budgeted{Memory: mem, slowed: slowed, failed: failed}
	b.flushes.perSecond, b.hashed.perSecond = float64(l.Flushes), float64(l.Hashed)
	b.guard, _ = mem.(region.Guarded)
	if w, ok := mem.(region.Watched); ok {
		return &watchedBudget{b, w}
	}
	return b
}

// wait waits as long as r says for n units, at most longestWait.
func (b *budgeted) wait(r *rate, n int) {
	if d := r.take(float64(n), time.Now()); d > 0 {
		b.slowed.Add(1)
		time.Sleep(min(d, longestWait))
	}
}

// fail reports the first error.
func (b *budgeted) fail(err error) error {
	if err != nil {
		b.once.Do(func() { b.failed(err) })
	}
	return err
}

// Persist implements region.Memory.
func (b *budgeted) Persist(off, n int) error {
	if n == 0 {
		return b.Memory.Persist(off, n) // asks whether the memory is persistent
	}
	b.wait(&b.flushes, 1)
	if mutant.Is(mutant.AckBeforeFlush) {
		return nil
	}
	return b.fail(b.Memory.Persist(off, n))
}

// PersistRanges implements region.RangePersister.
func (b *budgeted) PersistRanges(rs []region.Range) error {
	b.wait(&b.flushes, 1)
	if mutant.Is(mutant.AckBeforeFlush) {
		return nil
	}
	return b.fail(region.PersistRanges(b.Memory, rs))
}

// Store implements region.Guarded.
func (b *budgeted) Store(off int, p []byte) error {
	if b.guard == nil {
		copy(b.Bytes()[off:off+len(p)], p)
		return nil
	}
	return b.fail(b.guard.Store(off, p))
}

// Load implements region.Guarded.
func (b *budgeted) Load(p []byte, off int) error {
	if b.guard == nil {
		copy(p, b.Bytes()[off:off+len(p)])
		return nil
	}
	return b.fail(b.guard.Load(p, off))
}

// ReadBack implements region.ReadBacker: octets are read back to be hashed. That the medium cannot be read back is
// no failure of it.
func (b *budgeted) ReadBack(w io.Writer, off, n int) error {
	b.wait(&b.hashed, n)
	err := region.ReadBack(b.Memory, w, off, n)
	if errors.Is(err, region.ErrNotVerifiable) {
		return err
	}
	return b.fail(err)
}

// Verifiable implements region.ReadBacker.
func (b *budgeted) Verifiable() error { return region.Verifiable(b.Memory) }

// Guard implements region.Guarded.
func (b *budgeted) Guard(off, n int, f func() error) error {
	if b.guard == nil {
		return f()
	}
	return b.fail(b.guard.Guard(off, n, f))
}

// watchedBudget is budgeted for memory that is Watched.
type watchedBudget struct {
	*budgeted
	watched region.Watched
}

var _ region.Watched = (*watchedBudget)(nil)

// Failed implements region.Watched.
func (b *watchedBudget) Failed() <-chan struct{} { return b.watched.Failed() }

// Err implements region.Watched.
func (b *watchedBudget) Err() error { return b.watched.Err() }
