package pmem

import (
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stag-rdma/stag/internal/pmemhook"
	"github.com/stag-rdma/stag/rdmap/region"
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
	// PersistTimeout, CloseTimeout, Detached and Hooks are those of Options. Without
	// Hooks nothing hangs.
	PersistTimeout, CloseTimeout time.Duration
	Detached                     bool
	Hooks                        *pmemhook.Hooks
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
	data    []byte
	o       SimOptions
	gate    gate
	fl      flusher
	timeout time.Duration // of Close

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
	times := (&Options{PersistTimeout: s.o.PersistTimeout, CloseTimeout: s.o.CloseTimeout}).withDefaults()
	s.timeout = times.CloseTimeout
	s.fl = flusher{
		commit: s.commit, timeout: times.PersistTimeout, quick: s.o.Hooks == nil, detached: s.o.Detached,
		gate: &s.gate, failed: make(chan struct{}),
		pinErr: func() error { return &Error{Op: "persist", Kind: region.ErrPinned} },
	}
	return s
}

// Bytes lends the octets as the processor sees them. They stay valid after Close.
func (s *Sim) Bytes() []byte { return s.data }

// Persist makes exactly the n octets at off durable. The rest of their lines may or may not be
// durable, as before. Its errors are those of Memory.Persist.
func (s *Sim) Persist(off, n int) error { return s.PersistRanges([]region.Range{{Off: off, N: n}}) }

// PersistRanges is Persist for several ranges, with one flush. It borrows rs.
func (s *Sim) PersistRanges(rs []region.Range) error {
	if err := checkRanges("", rs, len(s.data)); err != nil {
		return err
	}
	if !s.gate.enter() {
		return &Error{Op: "persist", Kind: ErrClosed}
	}
	defer s.gate.leave()
	s.step()
	defer s.step()
	return s.fl.persist(rs)
}

func (s *Sim) commit(rs []region.Range) error {
	for _, r := range rs {
		if err := s.o.Hooks.Call(pmemhook.Model, r.Off, r.N); err != nil {
			return &Error{Op: "persist", Kind: ErrFailed, Err: err}
		}
		s.flush(r.Off, r.N)
	}
	return nil
}

// Store copies p to the octets at off. It borrows p. Errors: ErrRange, ErrClosed.
func (s *Sim) Store(off int, p []byte) error {
	if err := s.enter(off, len(p)); err != nil {
		return err
	}
	defer s.gate.leave()
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
	defer s.gate.leave()
	copy(p, s.data[off:])
	return nil
}

// ReadBack implements region.ReadBacker: it writes what Persist has made durable. Its errors are those of Store,
// and the first final error.
func (s *Sim) ReadBack(w io.Writer, off, n int) error {
	if err := s.enter(off, n); err != nil {
		return err
	}
	defer s.gate.leave()
	if err := s.fl.state(); err != nil {
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
	defer s.gate.leave()
	defer s.step()
	defer s.look(off, n)
	return f()
}

func (s *Sim) enter(off, n int) error {
	if !inside(off, n, len(s.data)) {
		return &Error{Op: "access", Kind: ErrRange}
	}
	if !s.gate.enter() {
		return &Error{Op: "access", Kind: ErrClosed}
	}
	return nil
}

func (s *Sim) step() {
	if s.o.Step != nil {
		s.o.Step(s)
	}
}

// Failed returns a channel that is closed at the first final error.
func (s *Sim) Failed() <-chan struct{} { return s.fl.failed }

// Err returns the first final error, or nil.
func (s *Sim) Err() error { return s.fl.state() }

// Close refuses further calls and waits for running ones, as Memory.Close does. Bytes and
// snapshots stay valid.
func (s *Sim) Close() error {
	if !within(s.gate.close(), s.timeout) {
		return &Error{Op: "close", Kind: region.ErrPinned}
	}
	s.fl.stop()
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
