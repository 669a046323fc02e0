package pmemtest

import (
	"bytes"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
)

// SimOptions has the settings of a crash model. Nil and zero fields mean the defaults.
type SimOptions struct {
	// Versions is how many contents of a line are remembered between two flushes. Beyond that the
	// oldest is forgotten, and with it the crashes that would have left it. If zero, 8.
	Versions int
	// Step, if not nil, is called whenever a crash can make a difference: after every Store and
	// Guard, and before and after every Persist. It runs in the goroutine of the call, without
	// locks, and may call Told.
	Step func(*Sim)
	// Hook is that of pmem.Open. Without one nothing hangs.
	Hook pmem.Hook
}

// Sim is a model of persistent memory that tests can crash. A store goes to a cache with lines of
// 64 octets. Each line may reach the medium at any time and in any order, flushed or not, once or
// several times. Persist guarantees that exactly its octets have reached the medium.
//
// A Snapshot describes what a crash at this moment could leave. For this, Sim knows for every
// line what the medium certainly holds, and all contents that the line has had since: each of
// them may have been written back.
//
// Store and Guard, which the engine uses, tell Sim about stores. Mark and Snapshot detect stores
// made directly into Bytes, and treat them as one store. The octets are plain memory of the
// process, so that the race detector sees all accesses. Persist reads them outside the lock that
// stores take, so that the lock hides no race.
//
// The methods may be called from several goroutines at once. But Mark and Snapshot look at all
// octets, so nobody may store into Bytes at the same time.
type Sim struct {
	data []byte
	o    SimOptions
	fl   *pmem.Flusher

	flushing sync.Mutex // before mu
	flushed  []byte     // memory for flush

	mu      sync.Mutex
	durable []byte
	dirty   map[int][]version // by line; never an empty list
	clock   uint64
}

var (
	_ region.Guarded        = (*Sim)(nil)
	_ region.RangePersister = (*Sim)(nil)
	_ region.Watched        = (*Sim)(nil)
	_ region.ReadBacker     = (*Sim)(nil)
)

// NewSim returns a crash model of size octets, all durable zeros. It panics if size is
// negative.
func NewSim(size int, o *SimOptions) *Sim { return OpenSim(make([]byte, size), o) }

// OpenSim returns a crash model whose medium holds image, as after a crash and a
// restart. It copies image.
func OpenSim(image []byte, o *SimOptions) *Sim {
	s := &Sim{durable: slices.Clone(image), dirty: make(map[int][]version)}
	s.data = append(make([]byte, 0, max(len(image), lineSize)), image...)
	if o != nil {
		s.o = *o
	}
	if s.o.Versions == 0 {
		s.o.Versions = 8
	}
	s.fl = pmem.NewFlusher(pmem.FlusherConfig{
		Commit: s.commit, Quick: s.o.Hook == nil,
		Hung: func() error { return &pmem.Error{Op: "persist", Kind: region.ErrPinned} },
	})
	return s
}

// Bytes lends the octets as the processor sees them. They stay valid after Close.
func (s *Sim) Bytes() []byte { return s.data }

// Persist makes exactly the n octets at off durable. The rest of their lines may or may not be
// durable, as before. Its errors are those of pmem.Memory.Persist.
func (s *Sim) Persist(off, n int) error { return s.PersistRanges([]region.Range{{Off: off, N: n}}) }

// PersistRanges is Persist for several ranges, with one flush. It borrows rs.
func (s *Sim) PersistRanges(rs []region.Range) error {
	if !region.AllWithin(rs, len(s.data)) {
		return &pmem.Error{Op: "persist", Kind: pmem.ErrRange}
	}
	if !s.fl.Enter() {
		return &pmem.Error{Op: "persist", Kind: pmem.ErrClosed}
	}
	defer s.fl.Leave()
	s.step()
	defer s.step()
	return s.fl.Persist(rs)
}

func (s *Sim) commit(rs []region.Range) error {
	for _, r := range rs {
		if err := s.o.Hook.Call(pmem.OpPersist, r.Off, r.N); err != nil {
			return &pmem.Error{Op: "persist", Kind: pmem.ErrFailed, Err: err}
		}
		s.flush(r.Off, r.N)
	}
	return nil
}

// Store copies p to the octets at off. It borrows p. Errors: pmem.ErrRange, pmem.ErrClosed.
func (s *Sim) Store(off int, p []byte) error {
	if err := s.enter(off, len(p)); err != nil {
		return err
	}
	defer s.fl.Leave()
	defer s.step()
	copy(s.data[off:], p)
	s.tell(off, p)
	return nil
}

// Load copies the octets at off to p. Its errors are those of Store.
func (s *Sim) Load(p []byte, off int) error {
	if err := s.enter(off, len(p)); err != nil {
		return err
	}
	defer s.fl.Leave()
	copy(p, s.data[off:])
	return nil
}

// ReadBack implements region.ReadBacker: it writes what Persist has made durable. Its errors are those of Store,
// and the first final error.
func (s *Sim) ReadBack(w io.Writer, off, n int) error {
	if err := s.enter(off, n); err != nil {
		return err
	}
	defer s.fl.Leave()
	if err := s.fl.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	p := slices.Clone(s.durable[off : off+n])
	s.mu.Unlock()
	_, err := w.Write(p)
	return err
}

// Verifiable implements region.ReadBacker.
func (s *Sim) Verifiable() error { return nil }

// Guard runs f, which may store to the n octets at off, also with sync/atomic. It returns the error
// of f; its own errors are those of Store.
func (s *Sim) Guard(off, n int, f func() error) error {
	if err := s.enter(off, n); err != nil {
		return err
	}
	defer s.fl.Leave()
	defer s.step()
	defer s.look(off, n)
	return f()
}

func (s *Sim) enter(off, n int) error {
	if !(region.Range{Off: off, N: n}).Within(len(s.data)) {
		return &pmem.Error{Op: "access", Kind: pmem.ErrRange}
	}
	if !s.fl.Enter() {
		return &pmem.Error{Op: "access", Kind: pmem.ErrClosed}
	}
	return nil
}

func (s *Sim) step() {
	if s.o.Step != nil {
		s.o.Step(s)
	}
}

// Failed returns a channel that is closed at the first final error.
func (s *Sim) Failed() <-chan struct{} { return s.fl.Failed() }

// Err returns the first final error, or nil.
func (s *Sim) Err() error { return s.fl.Err() }

// Close refuses further calls and waits for running ones, as that of pmem.Memory does. Bytes and
// snapshots stay valid.
func (s *Sim) Close() error {
	if !s.fl.Close() {
		return &pmem.Error{Op: "close", Kind: region.ErrPinned}
	}
	return nil
}

// Mark tells the model about stores made directly into Bytes: the present content of all lines
// may reach the medium from now on. Of two stores to one line without a Mark in between, the
// model sees only the later one.
func (s *Sim) Mark() { s.look(0, len(s.data)) }

// Snapshot returns what a crash now could leave. It calls Mark.
func (s *Sim) Snapshot() *Snapshot {
	s.Mark()
	return s.Told()
}

// Told is Snapshot without Mark: it knows only the stores that the model was told about, so other
// goroutines may go on storing.
func (s *Sim) Told() *Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Snapshot{durable: slices.Clone(s.durable), dirty: maps.Clone(s.dirty), o: s.o}
}

// lineSize is the size of a cache line, in octets.
const lineSize = int(Line)

// version is a content of a line that is not known to be durable. The octets are never changed, so
// snapshots can share them.
type version struct {
	at     uint64 // when: the order among versions, also of neighbouring lines
	stored uint64 // bit k: octet k is new in this version
	octets []byte
}

// span calls f for each line that the n octets at off touch, with the number of the line, the part of
// it that they touch (lo to hi), and the offset of that part in the n octets.
func span(off, n int, f func(line, lo, hi, at int)) {
	for at := 0; at < n; {
		line, lo := (off+at)/lineSize, (off+at)%lineSize
		hi := min(lineSize, lo+n-at)
		f(line, lo, hi, at)
		at += hi - lo
	}
}

// mask returns a mask of the bits lo to hi-1.
func mask(lo, hi int) uint64 { return ^uint64(0) >> (lineSize - (hi - lo)) << lo }

// lineOf returns the octets of a line in b; the last one may be short.
func lineOf(b []byte, line int) []byte {
	return b[line*lineSize : min((line+1)*lineSize, len(b))]
}

// tell records that p was stored at off.
func (s *Sim) tell(off int, p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(off, p)
}

// look records what the n octets at off are. It reads them under the lock: if two goroutines look at
// the same octets, the later one must not record the older content.
func (s *Sim) look(off, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(off, appendWords(nil, s.data[off:off+n]))
}

// noteLines is the number of lines whose contents are allocated together.
const noteLines = 8

// note adds a version to each line that p at off changes; s.mu is held. The versions of one store
// share memory.
func (s *Sim) note(off int, p []byte) {
	s.clock++
	var slab []byte
	var first []version // of lines that were clean
	span(off, len(p), func(line, lo, hi, at int) {
		vs := s.dirty[line]
		old := lineOf(s.durable, line)
		if len(vs) > 0 {
			old = vs[len(vs)-1].octets
		}
		if bytes.Equal(old[lo:hi], p[at:at+hi-lo]) {
			return
		}
		if cap(slab)-len(slab) < lineSize {
			n := min(noteLines, (off+len(p)-1)/lineSize-line+1)
			slab, first = make([]byte, 0, n*lineSize), make([]version, 0, n)
		}
		k := len(slab)
		slab = append(slab, old...)
		octets := slab[k:len(slab):len(slab)]
		copy(octets[lo:hi], p[at:])
		v := version{s.clock, mask(lo, hi), octets}
		if len(vs) == 0 {
			first = append(first, v)
			vs = first[len(first)-1 : len(first) : len(first)]
		} else {
			vs = append(slices.Clone(vs), v)
		}
		s.dirty[line] = vs[max(0, len(vs)-s.o.Versions):]
	})
}

// flush makes the n octets at off durable as they are now. Only one flush runs at a time: of two
// flushes of the same octets, the later one must not bring back the older content. The octets are
// read without the lock that stores take, so that the race detector notices if somebody stores to
// them at the same time.
func (s *Sim) flush(off, n int) {
	s.flushing.Lock()
	defer s.flushing.Unlock()
	now := s.now()
	s.flushed = appendWords(s.flushed[:0], s.data[off:off+n])
	p := s.flushed
	s.mu.Lock()
	defer s.mu.Unlock()
	copy(s.durable[off:], p)
	span(off, n, func(line, lo, hi, at int) {
		if _, ok := s.dirty[line]; !ok {
			return
		}
		vs := s.rebase(line, lo, p[at:at+hi-lo], now)
		if len(vs) == 0 {
			delete(s.dirty, line)
		} else {
			s.dirty[line] = vs
		}
	})
}

func (s *Sim) now() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock
}

// rebase returns the versions of a line after p, at lo in the line, became durable. Any earlier
// content of the line may have been written back before. So the medium may hold the rest of that
// content, but then together with p, which came later. What was stored after now may be later than p
// and stays.
func (s *Sim) rebase(line, lo int, p []byte, now uint64) (vs []version) {
	last := lineOf(s.durable, line)
	old := s.dirty[line]
	if len(p) == len(last) && (len(old) == 0 || old[len(old)-1].at <= now) {
		return nil // all of it is p, whenever it was written back
	}
	var later uint64 // octets stored after now
	for _, v := range old {
		if v.at > now {
			later |= v.stored
		}
		octets := slices.Clone(v.octets)
		for k, c := range p {
			if later>>(lo+k)&1 == 0 {
				octets[lo+k] = c
			}
		}
		if !bytes.Equal(octets, last) {
			vs = append(vs, version{v.at, v.stored, octets})
		}
		last = octets
	}
	return vs
}

// wordSize is how many octets an atomic operation changes.
const wordSize = 8

// appendWords appends b to dst. Aligned words of 8 octets are loaded atomically, so that a word changed
// by sync/atomic is never seen half changed, and those who change it so do not race with appendWords. With
// plain stores appendWords races as any reader does.
func appendWords(dst, b []byte) []byte {
	dst = slices.Grow(dst, len(b))
	out := dst[len(dst) : len(dst)+len(b)]
	base := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	i := min(int(-base%wordSize), len(b))
	copy(out, b[:i])
	for ; i+wordSize <= len(b); i += wordSize {
		w := atomic.LoadUint64((*uint64)(unsafe.Pointer(&b[i])))
		*(*[wordSize]byte)(out[i:]) = *(*[wordSize]byte)(unsafe.Pointer(&w))
	}
	copy(out[i:], b[i:])
	return dst[:len(dst)+len(b)]
}
