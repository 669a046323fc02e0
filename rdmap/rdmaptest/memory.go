package rdmaptest

import (
	"sync"

	"github.com/stag-rdma/stag/rdmap/region"
)

// Persisting is memory that counts what it persists.
type Persisting struct {
	Mem   []byte
	mu    sync.Mutex
	Calls int
	Err   error
	Stop  chan struct{} // if not nil, Persist waits for it
}

// Persist implements region.Memory.
func (m *Persisting) Persist(int, int) error {
	if m.Stop != nil {
		<-m.Stop
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Calls++
	return m.Err
}

// Bytes implements region.Memory.
func (m *Persisting) Bytes() []byte { return m.Mem }

// Close implements region.Memory.
func (m *Persisting) Close() error { return nil }

// CommitRights are the rights that all requests together need.
const CommitRights = region.RemoteRead | region.RemoteWrite | region.FlushPersistent | region.FlushVisible | region.Verify

// Frail is Guarded memory that is gone after a number of accesses.
type Frail struct {
	Mem     []byte
	Touches int
	Left    int
}

var _ region.Guarded = (*Frail)(nil)

// Bytes implements region.Memory.
func (m *Frail) Bytes() []byte { return m.Mem }

// Persist implements region.Memory.
func (m *Frail) Persist(int, int) error { return m.touch() }

// Close implements region.Memory.
func (m *Frail) Close() error { return nil }

func (m *Frail) touch() error {
	m.Touches++
	if m.Left--; m.Left < 0 {
		return region.ErrRegionLost
	}
	return nil
}

// Store implements region.Guarded.
func (m *Frail) Store(off int, p []byte) error {
	err := m.touch()
	if err == nil {
		copy(m.Mem[off:], p)
	}
	return err
}

// Load implements region.Guarded.
func (m *Frail) Load(p []byte, off int) error {
	err := m.touch()
	if err == nil {
		copy(p, m.Mem[off:])
	}
	return err
}

// Guard implements region.Guarded.
func (m *Frail) Guard(_, _ int, f func() error) error {
	if err := m.touch(); err != nil {
		return err
	}
	return f()
}

// Counting is Guarded memory that counts its accesses: nobody may touch its Bytes.
type Counting struct {
	Mem            []byte
	Stored, Loaded uint64
	next           int  // where the next store or load has to be
	Anywhere       bool // it need not be there
	Bad            int  // it was not
}

var _ region.Guarded = (*Counting)(nil)

// Bytes implements region.Memory.
func (m *Counting) Bytes() []byte { return m.Mem }

// Persist implements region.Memory.
func (m *Counting) Persist(int, int) error { return nil }

// Close implements region.Memory.
func (m *Counting) Close() error { return nil }

// Guard implements region.Guarded.
func (m *Counting) Guard(_, _ int, f func() error) error { return f() }

// Store implements region.Guarded.
func (m *Counting) Store(off int, p []byte) error {
	m.touch(off, len(p))
	m.Stored += uint64(len(p))
	return nil
}

// Load implements region.Guarded.
func (m *Counting) Load(p []byte, off int) error {
	m.touch(off, len(p))
	m.Loaded += uint64(len(p))
	return nil
}

func (m *Counting) touch(off, n int) {
	if off != m.next && !m.Anywhere {
		m.Bad++
	}
	m.next = off + n
}
