package commitlog

import (
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/stag-rdma/stag/rdmap/region"
)

// ErrAlign: the memory does not begin at a multiple of 8.
var ErrAlign = errors.New("commitlog: memory is not aligned to 8 octets (use memory of package pmem)")

// memory is the memory of a log. It is safe for concurrent use. The log, if not nil, is told when the tail was stored or
// flushed, and the first error.
//
// LazyTail is how many octets of records are acknowledged in wal mode before a flush of the ring includes the tail. Recovery
// rolls forward over them; before the tail it can distinguish a damaged record from the end.
type memory struct {
	LazyTail uint64

	log      *Log
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

// newMemory wraps mem, which still belongs to the caller.
func newMemory(mem region.Memory) (*memory, error) {
	m := &memory{LazyTail: 64 << 10, mem: mem, failed: make(chan struct{})}
	m.guard, _ = mem.(region.Guarded)
	if b := mem.Bytes(); len(b) > ringOff && uintptr(unsafe.Pointer(unsafe.SliceData(b)))%8 != 0 {
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
	if off == publishedOff {
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

// do executes steps of the consumer, in order.
func (m *memory) do(steps []step) error {
	for _, st := range steps {
		if err := m.step(&st); err != nil {
			return err
		}
	}
	return nil
}

func (m *memory) step(st *step) error {
	if st.Ranges != nil {
		for _, r := range st.Ranges {
			if r.Off == tailOff {
				defer m.flushed.Store(m.tail.Load())
			}
		}
		return m.Persist(st.Ranges...)
	}
	err := m.Store(st.Off, st.Data)
	switch st.Off {
	case tailOff:
		m.setTail(binary.BigEndian.Uint64(st.Data))
	case publishedOff:
		m.head.Store(binary.BigEndian.Uint64(st.Data))
	}
	return err
}

// setTail takes a tail word. One that goes back changes nothing: somebody may rely on what was acknowledged.
func (m *memory) setTail(v uint64) {
	if v > m.tail.Load() {
		m.tail.Store(v)
	}
	m.moved()
}

func (m *memory) moved() {
	if m.log != nil {
		m.log.tailMoved()
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
	if first && m.log != nil {
		m.log.fail(err)
	}
	return err
}

// window is a part of the memory that can be registered: the producer can reach the ring, the tail word and the published
// head, each with rights of its own, and the log is told when the tail moves or is flushed.
type window struct {
	*memory
	off, n int
}

func (w *window) Bytes() []byte { return w.mem.Bytes()[w.off : w.off+w.n : w.off+w.n] }
func (w *window) Close() error  { return nil }

func (w *window) Persist(off, n int) error {
	return w.memory.Persist(region.Range{Off: w.off + off, N: n})
}

func (w *window) Store(off int, p []byte) error { return w.memory.Store(w.off+off, p) }
func (w *window) Load(p []byte, off int) error  { return w.memory.Load(p, w.off+off) }

func (w *window) Guard(off, n int, f func() error) error {
	if w.guard != nil {
		return w.fail(w.guard.Guard(w.off+off, n, f))
	}
	return f()
}

// ReadBack implements region.ReadBacker. That the medium cannot be read back is no failure of it.
func (w *window) ReadBack(to io.Writer, off, n int) error {
	err := region.ReadBack(w.mem, to, w.off+off, n)
	if errors.Is(err, region.ErrNotVerifiable) {
		return err
	}
	return w.fail(err)
}

// Verifiable implements region.ReadBacker.
func (w *window) Verifiable() error { return region.Verifiable(w.mem) }

// Failed returns a channel that is closed at the first error of the memory.
func (w *window) Failed() <-chan struct{} {
	if inner, ok := w.mem.(region.Watched); ok {
		return inner.Failed()
	}
	return w.failed
}

// The windows of a log.
type (
	ring struct {
		window
		lazy bool // wal mode
	}
	tail struct {
		window
		now [8]byte // used by look
	}
	published struct{ window }
)

var _ = []interface {
	region.Guarded
	region.Watched
	region.ReadBacker
}{(*ring)(nil), (*tail)(nil), (*published)(nil)}

// Ring is where the producer writes records. In wal mode the tail is flushed with them from time to
// time. The requests of a stream are executed one at a time, so nobody stores the tail meanwhile.
func (m *memory) Ring(mode Mode) region.Memory {
	return &ring{window{m, ringOff, m.Size() - ringOff}, mode == WAL}
}

// Persist implements region.Memory.
func (r *ring) Persist(off, n int) error {
	at := region.Range{Off: r.off + off, N: n}
	v := r.tail.Load()
	if !r.lazy || v-r.flushed.Load() < r.LazyTail {
		return r.memory.Persist(at)
	}
	err := r.memory.Persist(at, region.Range{Off: tailOff, N: 8})
	if err == nil {
		r.settled(v)
	}
	return err
}

// Settle makes the tail word durable, for a log that is quiet: then recovery can tell the damage of its last records
// from their end. No store of the word comes between.
func (m *memory) Settle() error {
	m.word.Lock()
	defer m.word.Unlock()
	v := m.tail.Load()
	if m.flushed.Load() >= v {
		return nil
	}
	err := m.Persist(region.Range{Off: tailOff, N: 8})
	if err == nil {
		m.settled(v)
	}
	return err
}

// settled notes that tail v is durable.
func (m *memory) settled(v uint64) {
	for {
		old := m.flushed.Load()
		if old >= v || m.flushed.CompareAndSwap(old, v) {
			return
		}
	}
}

// TailWord is the word that the producer moves by Atomic Write.
func (m *memory) TailWord() region.Memory { return &tail{window: window{m, tailOff, 8}} }

// Persist implements region.Memory.
func (t *tail) Persist(off, n int) error {
	v := t.tail.Load()
	if err := t.window.Persist(off, n); err != nil {
		return err
	}
	t.settled(v)
	t.moved()
	return nil
}

// Guard implements region.Guarded: atomic stores use it.
func (t *tail) Guard(off, n int, f func() error) error {
	t.word.Lock()
	defer t.word.Unlock()
	if err := t.window.Guard(off, n, f); err != nil {
		return err
	}
	return t.look()
}

// Store implements region.Guarded.
func (t *tail) Store(off int, p []byte) error {
	t.word.Lock()
	defer t.word.Unlock()
	if err := t.window.Store(off, p); err != nil {
		return err
	}
	return t.look()
}

// look reads the word after a store. Only one stream stores it.
func (t *tail) look() error {
	err := t.window.Load(t.now[:], 0)
	if err == nil {
		t.setTail(binary.BigEndian.Uint64(t.now[:]))
	}
	return err
}

// Published is where the producer reads the durable head.
func (m *memory) Published() region.Memory {
	return &published{window{m, publishedOff, 8}}
}

// Load implements region.Guarded.
func (p *published) Load(b []byte, off int) error {
	p.pub.Lock()
	defer p.pub.Unlock()
	return p.window.Load(b, off)
}

// Guard implements region.Guarded.
func (p *published) Guard(off, n int, f func() error) error {
	p.pub.Lock()
	defer p.pub.Unlock()
	return p.window.Guard(off, n, f)
}
