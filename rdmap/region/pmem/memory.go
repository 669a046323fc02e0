package pmem

import (
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stag-rdma/stag/rdmap/region"
)

// Memory is memory in a file, of the kind File, Mmap or DAX. Its methods may be called from several
// goroutines at once.
type Memory struct {
	kind    Kind
	d       *device
	med     medium
	fl      *Flusher
	timeout time.Duration // of Close
	unread  error         // why the medium cannot be read back

	persists, octets atomic.Uint64

	closeMu sync.Mutex
	closed  bool
}

var (
	_ region.Guarded        = (*Memory)(nil)
	_ region.RangePersister = (*Memory)(nil)
	_ region.Watched        = (*Memory)(nil)
	_ region.WriteBacker    = (*Memory)(nil)
)

func newMemory(kind Kind, d *device, med medium, o *Options) *Memory {
	m := &Memory{kind: kind, d: d, med: med, timeout: o.CloseTimeout}
	m.fl = NewFlusher(FlusherConfig{
		Commit: med.persist, Timeout: o.PersistTimeout, Quick: med.quick(),
		Hung: func() error { return d.error("persist", region.ErrPinned, nil) },
	})
	return m
}

// Kind returns the kind.
func (m *Memory) Kind() Kind { return m.kind }

// Path returns the name of the file, as given to Open.
func (m *Memory) Path() string { return m.d.path }

// Bytes lends the octets until Close. For File they are plain memory of the process. Otherwise
// they are a mapping: after Close, or if the file is truncated, an access outside Store, Load
// and Guard kills the process.
func (m *Memory) Bytes() []byte { return m.med.bytes() }

// Persist returns nil when the n octets at off, stored before the call, are durable, and the file
// is unchanged in size and name. Concurrent calls share one flush.
//
// The first error other than ErrRange and ErrClosed is final: every later call returns it,
// without a system call. After a failed fdatasync Linux marks the pages clean, so a second
// fdatasync would report success for lost data. Octets that were acknowledged before stay
// durable. Errors: ErrFailed with the cause; region.ErrRegionLost if the file was truncated or
// removed; region.ErrPinned if a system call has not returned within Options.PersistTimeout. That
// call may still take effect, and holds the memory (see Close and Pinned). All callers get this
// error at the deadline, except the one in whose goroutine the call hangs, which gets it when the call
// returns.
func (m *Memory) Persist(off, n int) error { return m.PersistRanges([]region.Range{{Off: off, N: n}}) }

// PersistRanges is Persist for several ranges, with one flush. It borrows rs.
func (m *Memory) PersistRanges(rs []region.Range) error {
	if !region.AllWithin(rs, m.d.size) {
		return m.d.error("persist", ErrRange, nil)
	}
	if !m.fl.Enter() {
		return m.errClosed("persist")
	}
	defer m.fl.Leave()
	if err := m.fl.Persist(rs); err != nil {
		return err
	}
	m.persists.Add(1)
	for _, r := range rs {
		m.octets.Add(uint64(r.N))
	}
	return nil
}

// WriteBack starts to persist the n octets at off, and returns at once. Nobody waits for this
// Persist, and it shares its flush with others. WriteBack does nothing for octets outside the
// memory, after Close or a final error, or while many requests wait.
func (m *Memory) WriteBack(off, n int) {
	if !(region.Range{Off: off, N: n}).Within(m.d.size) || !m.fl.Enter() {
		return
	}
	defer m.fl.Leave()
	m.fl.begin(region.Range{Off: off, N: n})
}

// Store copies p to the octets at off. Errors: ErrRange; ErrClosed; region.ErrRegionLost, which
// is final as with Persist.
func (m *Memory) Store(off int, p []byte) error {
	return m.guard("store", off, len(p), func() error {
		region.CopyUnseen(m.Bytes()[off:off+len(p)], p)
		return nil
	})
}

// Load copies the octets at off to p. Its errors are those of Store.
func (m *Memory) Load(p []byte, off int) error {
	return m.guard("load", off, len(p), func() error {
		region.CopyUnseen(p, m.Bytes()[off:off+len(p)])
		return nil
	})
}

// Guard runs f, as region.Guarded describes. Its own errors are those of Store. f must not call
// Close.
func (m *Memory) Guard(off, n int, f func() error) error { return m.guard("access", off, n, f) }

// guard runs f inside the gate, so that Close does not unmap what f is touching.
func (m *Memory) guard(op string, off, n int, f func() error) error {
	if !(region.Range{Off: off, N: n}).Within(m.d.size) {
		return &Error{Op: op, Path: m.d.path, Kind: ErrRange}
	}
	if !m.fl.Enter() {
		return m.errClosed(op)
	}
	defer m.fl.Leave()
	if m.kind == File {
		return f()
	}
	if err := m.fl.Err(); errors.Is(err, region.ErrRegionLost) {
		return err
	}
	at, err := catchFault(m.Bytes(), f)
	switch {
	case at != nil:
		return m.fl.lose(m.d.error(op, region.ErrRegionLost, at))
	case errors.Is(err, syscall.EFAULT):
		return m.fl.lose(m.d.error(op, region.ErrRegionLost, err))
	}
	return err
}

// Failed returns a channel that is closed at the first final error.
func (m *Memory) Failed() <-chan struct{} { return m.fl.Failed() }

// Err returns the first final error, or nil.
func (m *Memory) Err() error { return m.fl.Err() }

func (m *Memory) errClosed(op string) error { return m.d.error(op, ErrClosed, nil) }
