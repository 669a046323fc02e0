package commitlog

import (
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/transport/commitlog/internal/machine"
)

// memory is the memory of a log. It is safe for concurrent use. Moved, if not nil, is called
// after the tail was stored or flushed, and must not use the memory; Fail, if not nil, at the first error.
//
// LazyTail is how many octets of records are acknowledged in wal mode before a flush of the ring includes the tail. Recovery
// rolls forward over them; before the tail it can distinguish a damaged record from the end.
type memory struct {
	Moved    func()
	Fail     func(error)
	LazyTail uint64

	mem      region.Memory
	guard    region.Guarded // mem, if it is one
	volatile bool           // mem cannot be made durable

	tail    atomic.Uint64 // the largest that was stored
	flushed atomic.Uint64 // last flushed
	head    atomic.Uint64 // last published, and so durable

	word   sync.Mutex // held while the producer stores the tail word, and by Settle
	pub    sync.Mutex // guards the published head
	errMu  sync.Mutex
	err    error
	failed chan struct{}
}

// New wraps mem, which still belongs to the caller.
func newMemory(mem region.Memory) (*memory, error) {
	m := &memory{LazyTail: 64 << 10, mem: mem, failed: make(chan struct{})}
	m.guard, _ = mem.(region.Guarded)
	if b := mem.Bytes(); len(b) > machine.RingOff && uintptr(unsafe.Pointer(unsafe.SliceData(b)))%8 != 0 {
		return nil, ErrAlign
	}
	switch err := mem.Persist(0, 0); {
	case errors.Is(err, region.ErrNotPersistent):
		m.volatile = true
	case err != nil:
		return nil, err
	}
	return m, nil
}

// Size returns the size of the memory in octets.
func (m *memory) Size() int { return len(m.mem.Bytes()) }

// Persistent reports whether Persist makes octets durable.
func (m *memory) Persistent() bool { return !m.volatile }

// Verifiable reports whether the medium can be read back, for Verify.
func (m *memory) Verifiable() bool { return region.Verifiable(m.mem) == nil }

// Load copies the octets at off to p.
func (m *memory) Load(p []byte, off int) error {
	if err := m.Err(); err != nil {
		return err
	}
	if m.guard != nil {
		return m.fail(m.guard.Load(p, off))
	}
	copy(p, m.mem.Bytes()[off:off+len(p)])
	return nil
}

// Store copies p to the octets at off.
func (m *memory) Store(off int, p []byte) error {
	if off == machine.PublishedOff {
		m.pub.Lock()
		defer m.pub.Unlock()
	}
	if m.guard != nil {
		return m.fail(m.guard.Store(off, p))
	}
	copy(m.mem.Bytes()[off:off+len(p)], p)
	return nil
}

// Persist makes ranges durable, with one flush if the memory can.
func (m *memory) Persist(rs ...region.Range) error {
	if err := m.Err(); err != nil || m.volatile {
		return err
	}
	return m.fail(region.PersistRanges(m.mem, rs))
}

// Do executes the stores and flushes of the consumer, in order.
func (m *memory) Do(op *machine.Op) error {
	switch op.Kind {
	case machine.OpStore:
		err := m.Store(op.Off, op.Data)
		switch op.Off {
		case machine.TailOff:
			m.setTail(binary.BigEndian.Uint64(op.Data))
		case machine.PublishedOff:
			m.head.Store(binary.BigEndian.Uint64(op.Data))
		}
		return err
	case machine.OpPersist:
		rs := make([]region.Range, len(op.Ranges))
		for i, r := range op.Ranges {
			rs[i] = region.Range{Off: r.Off, N: r.N}
			if r.Off == machine.TailOff {
				defer m.flushed.Store(m.tail.Load())
			}
		}
		return m.Persist(rs...)
	default:
		return nil
	}
}

// Tail returns the largest tail word that was stored.
func (m *memory) Tail() uint64 { return m.tail.Load() }

// Flushed returns the last flushed tail word.
func (m *memory) Flushed() uint64 { return m.flushed.Load() }

// Head returns the durable head that was published last. There must have been a session.
func (m *memory) Head() uint64 { return m.head.Load() }

// Reset sets the tail that recovery has found.
func (m *memory) Reset(tail uint64) {
	m.tail.Store(tail)
	m.flushed.Store(tail)
}

// setTail takes a tail word. One that goes back changes nothing: somebody may rely on what was acknowledged.
func (m *memory) setTail(v uint64) {
	if v > m.tail.Load() {
		m.tail.Store(v)
	}
	m.moved()
}

func (m *memory) moved() {
	if m.Moved != nil {
		m.Moved()
	}
}

// Err returns the first error of the memory.
func (m *memory) Err() error {
	m.errMu.Lock()
	defer m.errMu.Unlock()
	return m.err
}

// fail keeps the first error and returns it from then on.
func (m *memory) fail(err error) error {
	if err == nil {
		return nil
	}
	m.errMu.Lock()
	first := m.err == nil
	if first {
		m.err = err
		close(m.failed)
	}
	err = m.err
	m.errMu.Unlock()
	if first && m.Fail != nil {
		m.Fail(err)
	}
	return err
}
