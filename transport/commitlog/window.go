package commitlog

import (
	"encoding/binary"
	"errors"
	"io"
	"sync/atomic"
	"unsafe"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/transport/commitlog/internal/machine"
)

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
	tail      struct{ window }
	published struct{ window }
)

var _ = []interface {
	region.Guarded
	region.Watched
	region.ReadBacker
}{(*ring)(nil), (*tail)(nil), (*published)(nil)}

// Ring is where the producer writes records. In wal mode the tail is flushed with them from time to
// time. The requests of a stream are executed one at a time, so nobody stores the tail meanwhile.
func (m *memory) Ring(mode machine.Mode) region.Memory {
	return &ring{window{m, machine.RingOff, m.Size() - machine.RingOff}, mode == machine.WAL}
}

// Persist implements region.Memory.
func (r *ring) Persist(off, n int) error {
	at := region.Range{Off: r.off + off, N: n}
	v := r.tail.Load()
	if !r.lazy || v-r.flushed.Load() < r.LazyTail {
		return r.memory.Persist(at)
	}
	err := r.memory.Persist(at, region.Range{Off: machine.TailOff, N: 8})
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
	err := m.Persist(region.Range{Off: machine.TailOff, N: 8})
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
func (m *memory) TailWord() region.Memory { return &tail{window{m, machine.TailOff, 8}} }

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
	word := (*uint64)(unsafe.Pointer(unsafe.SliceData(t.Bytes())))
	if t.guard != nil {
		return t.lookGuarded(word)
	}
	t.setTail(fromWire(atomic.LoadUint64(word)))
	return nil
}

// lookGuarded is look with a closure, which is allocated.
func (t *tail) lookGuarded(word *uint64) error {
	var v uint64
	err := t.window.Guard(0, 8, func() error { v = atomic.LoadUint64(word); return nil })
	if err == nil {
		t.setTail(fromWire(v))
	}
	return err
}

// fromWire returns the position in a word that holds it big-endian.
func fromWire(word uint64) uint64 {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], word)
	return binary.BigEndian.Uint64(b[:])
}

// Published is where the producer reads the durable head.
func (m *memory) Published() region.Memory {
	return &published{window{m, machine.PublishedOff, 8}}
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
