package pmemtest

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
)

// Target is a memory under test. Create is required; a promise whose test needs a function that is
// nil is not tested.
type Target struct {
	// Create returns new memory of size octets, all zeros. If f is not nil, its operations
	// call f.Before first. The test closes the memory, or Crash does.
	Create func(t testing.TB, size int, f *Faults) region.Memory
	// Crash returns the memory that is left of m after the end of its process: everything
	// for which Persist has returned nil, and perhaps more of what was stored. It ends the
	// use of m.
	Crash func(t testing.TB, m region.Memory) region.Memory
	// Again tries to open the medium of m a second time, which must fail, and returns
	// the error.
	Again func(t testing.TB, m region.Memory) error
	// Truncate makes the medium of m n octets long.
	Truncate func(t testing.TB, m region.Memory, n int)
	// Sync is the operation that makes octets durable, for Faults; "" if Create cannot
	// make it fail.
	Sync pmem.Op
	// Write is the operation that Persist makes before Sync, if there is one.
	Write pmem.Op
	// Exact: octets that nobody has persisted do not survive Crash.
	Exact bool
	// Mapped: an access to truncated memory faults.
	Mapped bool
}

// Run runs the suite, with a subtest for each promise.
func Run(t *testing.T, g Target) {
	for _, p := range []struct {
		name string
		ok   bool
		test func(*testing.T, Target)
	}{
		{"octets", true, testOctets},
		{"range", true, testRange},
		{"registered", true, testRegistered},
		{"guarded", true, testGuarded},
		{"concurrent", true, testConcurrent},
		{"close", true, testClose},
		{"owner", g.Again != nil, testOwner},
		{"durable", g.Crash != nil, testDurable},
		{"oracle", g.Crash != nil, testOracle},
		{"fails once", g.Sync != "", testFailsOnce},
		{"fails for good", g.Sync != "", testFailsForGood},
		{"acknowledged", g.Sync != "" && g.Crash != nil, testAcknowledged},
		{"fails concurrently", g.Sync != "", testFailsConcurrently},
		{"full", g.Write != "", testFull},
		{"truncated", g.Truncate != nil, testTruncated},
		{"truncated meanwhile", g.Truncate != nil && g.Sync != "", testTruncatedDuring},
		{"faults", g.Truncate != nil && g.Mapped, testFaults},
	} {
		if p.ok {
			t.Run(p.name, func(t *testing.T) { p.test(t, g) })
		}
	}
}

// create makes memory that is closed at the end of the test.
func (g *Target) create(t *testing.T, size int, f *Faults) region.Memory {
	t.Helper()
	m := g.Create(t, size, f)
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return m
}

// store stores through the guard, if there is one.
func store(t testing.TB, m region.Memory, off int, p []byte) {
	t.Helper()
	if g, ok := m.(region.Guarded); ok {
		if err := g.Store(off, p); err != nil {
			t.Fatalf("store at %d: %v", off, err)
		}
		return
	}
	copy(m.Bytes()[off:], p)
}

func persist(t testing.TB, m region.Memory, off, n int) {
	t.Helper()
	if err := m.Persist(off, n); err != nil {
		t.Fatalf("persist %d octets at %d: %v", n, off, err)
	}
}

// New memory has the right size, holds zeros, stays at one address, and is aligned for atomics.
func testOctets(t *testing.T, g Target) {
	for _, size := range []int{1, 63, 64, 4096, 4097, 70_000} {
		m := g.create(t, size, nil)
		b := m.Bytes()
		if !bytes.Equal(b, make([]byte, size)) {
			t.Errorf("new memory of %d octets: got %d octets, or not all zeros", size, len(b))
		}
		if again := m.Bytes(); &again[0] != &b[0] {
			t.Errorf("memory of %d octets: the second call of Bytes returned another array", size)
		}
		if uintptr(unsafe.Pointer(&b[0]))%8 != 0 {
			t.Errorf("memory of %d octets: not aligned to 8", size)
		}
	}
}

// Every range within the memory can be persisted. Others are refused, without further effect.
func testRange(t *testing.T, g Target) {
	const size = 5000
	m := g.create(t, size, nil)
	for _, r := range []region.Range{
		{Off: -1, N: 1},
		{Off: 0, N: -1},
		{Off: 0, N: size + 1},
		{Off: size, N: 1},
		{Off: size + 1, N: 0},
		{Off: 1, N: math.MaxInt},
		{Off: math.MaxInt, N: math.MaxInt},
		{Off: math.MinInt, N: math.MaxInt},
	} {
		if m.Persist(r.Off, r.N) == nil {
			t.Errorf("Persist of %d octets at %d: no error", r.N, r.Off)
		}
	}
	for _, r := range []region.Range{
		{Off: 0, N: 0},
		{Off: size, N: 0},
		{Off: 0, N: 1},
		{Off: size - 1, N: 1},
		{Off: 4095, N: 2},
		{Off: 63, N: 66},
		{Off: 0, N: size},
	} {
		persist(t, m, r.Off, r.N)
	}
	rs := []region.Range{{Off: 4990, N: 10}, {Off: 0, N: 7}, {Off: 3, N: 9}, {Off: 3, N: 0}}
	if err := region.PersistRanges(m, rs); err != nil {
		t.Error(err)
	}
	if err := region.PersistRanges(m, nil); err != nil {
		t.Error(err)
	}
}

// The memory works when it is registered and used as the engine uses it.
func testRegistered(t *testing.T, g Target) {
	m := g.create(t, 4096, nil)
	tab := region.NewTable()
	r, err := tab.RegisterMemory(m, region.Options{Access: region.RemoteWrite | region.FlushPersistent})
	if err != nil {
		t.Fatal(err)
	}
	v, err := tab.Lookup(r.STag(), 100, 5, region.RemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	err = errors.Join(v.CopyIn([]byte("hello")), v.Memory().Persist(v.Offset(), 5), v.CopyOut(got, 0))
	v.Release()
	if err != nil || string(got) != "hello" || string(m.Bytes()[100:105]) != "hello" {
		t.Errorf("%q %v", got, err)
	}
	if err := r.Invalidate(t.Context()); err != nil {
		t.Error(err)
	}
}

// A Guarded memory copies, refuses octets outside it, and passes on errors and panics.
func testGuarded(t *testing.T, g Target) {
	m, ok := g.create(t, 4096, nil).(region.Guarded)
	if !ok {
		return
	}
	got := make([]byte, 3)
	if err := errors.Join(m.Store(4093, []byte("end")), m.Load(got, 4093)); err != nil || string(got) != "end" {
		t.Errorf("%q %v", got, err)
	}
	for _, off := range []int{-1, 4094, math.MaxInt} {
		if m.Store(off, got) == nil || m.Load(got, off) == nil || m.Guard(off, 3, func() error { return nil }) == nil {
			t.Errorf("access to 3 octets at %d: no error", off)
		}
	}
	want := errors.New("of f")
	if err := m.Guard(0, 1, func() error { return want }); !errors.Is(err, want) || errors.Is(err, region.ErrRegionLost) {
		t.Error(err)
	}
	if r := recovered(func() { _ = m.Guard(0, 1, func() error { panic(want) }) }); r != any(want) {
		t.Errorf("panic of f became %v", r)
	}
	if w, ok := m.(region.Watched); ok && w.Err() != nil {
		t.Errorf("an error or panic of f made the memory fail: %v", w.Err())
	}
}

func recovered(f func()) (r any) {
	defer func() { r = recover() }()
	f()
	return nil
}

// Several goroutines store and persist, each its own piece.
func testConcurrent(t *testing.T, g Target) {
	const workers, piece = 4, 100
	m := g.create(t, workers*piece, nil)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for k := range 8 {
				store(t, m, w*piece, bytes.Repeat([]byte{byte(16*w + k)}, piece))
				if err := m.Persist(w*piece, piece); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for w := range workers {
		if want := bytes.Repeat([]byte{byte(16*w + 7)}, piece); !bytes.Equal(m.Bytes()[w*piece:][:piece], want) {
			t.Errorf("piece %d is damaged", w)
		}
	}
}

// Close is idempotent and final.
func testClose(t *testing.T, g Target) {
	m := g.Create(t, 4096, nil)
	for range 2 {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	if m.Persist(0, 1) == nil {
		t.Error("persist after close: no error")
	}
	if m, ok := m.(region.Guarded); ok {
		if m.Store(0, []byte{1}) == nil || m.Load(make([]byte, 1), 0) == nil || m.Guard(0, 0, func() error { return nil }) == nil {
			t.Error("access after close: no error")
		}
	}
}

// The memory has one owner.
func testOwner(t *testing.T, g Target) {
	m := g.create(t, 4096, nil)
	if g.Again(t, m) == nil {
		t.Error("opened twice")
	}
	persist(t, m, 0, 4096) // the first owner is not disturbed
}

// Octets that were persisted survive, and those that nobody touched are zeros.
func testDurable(t *testing.T, g Target) {
	m := g.Create(t, 8192, nil)
	store(t, m, 10, []byte("persisted"))
	persist(t, m, 10, 9)
	store(t, m, 5000, []byte("stored"))
	m = g.Crash(t, m)
	want := make([]byte, 8192)
	copy(want[10:], "persisted")
	got := bytes.Clone(m.Bytes())
	if g.Exact && !bytes.Equal(got, want) {
		t.Error("octets that nobody persisted survived")
	}
	copy(got[5000:], make([]byte, 6))
	if !bytes.Equal(got, want) {
		t.Error("persisted octets are lost, or others damaged")
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// oracle knows what each octet may be after a crash: what it was when it was last persisted, or
// anything stored there since then.
type oracle struct {
	may   [][]byte // by octet; the first one is durable
	now   []byte
	exact bool
}

func newOracle(size int, exact bool) *oracle {
	o := &oracle{exact: exact}
	o.restart(make([]byte, size))
	return o
}

func (o *oracle) restart(image []byte) {
	o.now = bytes.Clone(image)
	o.may = make([][]byte, len(image))
	for i, b := range image {
		o.may[i] = []byte{b}
	}
}

func (o *oracle) store(off int, p []byte) {
	copy(o.now[off:], p)
	for i, b := range p {
		o.may[off+i] = append(o.may[off+i], b)
	}
}

func (o *oracle) persist(off, n int) {
	for i := off; i < off+n; i++ {
		o.may[i] = append(o.may[i][:0], o.now[i])
	}
}

// check returns the offset of the first octet of image that is impossible, or -1.
func (o *oracle) check(image []byte) int {
	for i, b := range image {
		may := o.may[i]
		if o.exact {
			may = may[:1]
		}
		if bytes.IndexByte(may, b) < 0 {
			return i
		}
	}
	return -1
}

// Random stores, persists and crashes leave what the oracle allows.
func testOracle(t *testing.T, g Target) {
	const size, crashes, steps = 1000, 4, 25
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	m, o := g.Create(t, size, nil), newOracle(size, g.Exact)
	for range crashes {
		for range steps {
			o.step(t, r, m)
		}
		m = g.Crash(t, m)
		if i := o.check(m.Bytes()); i >= 0 {
			t.Fatalf("octet %d is %#x, may be % x", i, m.Bytes()[i], o.may[i])
		}
		o.restart(m.Bytes())
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

func (o *oracle) step(t *testing.T, r *rand.Rand, m region.Memory) {
	t.Helper()
	off := r.IntN(len(o.now))
	n := r.IntN(min(200, len(o.now)-off) + 1)
	if r.IntN(3) == 0 {
		persist(t, m, off, n)
		o.persist(off, n)
		return
	}
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(1 + r.IntN(255))
	}
	store(t, m, off, p)
	o.store(off, p)
	if !bytes.Equal(m.Bytes(), o.now) {
		t.Fatalf("store of %d octets at %d: Bytes does not have what was stored", n, off)
	}
}

// isFinal requires that m has failed for good because of want, and makes no more system calls.
func isFinal(t *testing.T, g Target, m region.Memory, f *Faults, first, want error) {
	t.Helper()
	if !errors.Is(first, want) {
		t.Errorf("got %v, want %v", first, want)
	}
	calls := f.Count(g.Sync)
	for range 3 {
		if err := m.Persist(0, 64); err == nil || !errors.Is(err, want) {
			t.Errorf("after the first error: %v", err)
		}
	}
	if n := f.Count(g.Sync) - calls; n != 0 {
		t.Errorf("%d syncs after the first error", n)
	}
	w, ok := m.(region.Watched)
	if !ok {
		return
	}
	if err := w.Err(); !errors.Is(err, want) {
		t.Errorf("Err: %v", err)
	}
	select {
	case <-w.Failed():
	default:
		t.Error("Failed is open")
	}
}

// ADVERSARY 22: fsync fails once, then succeeds. Nothing is acknowledged after that.
func testFailsOnce(t *testing.T, g Target) {
	f := NewFaults()
	m := g.create(t, 4096, f)
	persist(t, m, 0, 64)
	store(t, m, 0, []byte("lost"))
	f.FailOnce(g.Sync, syscall.EIO)
	isFinal(t, g, m, f, m.Persist(0, 64), syscall.EIO)
}

// ADVERSARY 25: the disk is dead.
func testFailsForGood(t *testing.T, g Target) {
	for _, rs := range [][]region.Range{{{Off: 100, N: 1}}, {{Off: 100, N: 1}, {Off: 9000, N: 1}}} {
		f := NewFaults()
		m := g.create(t, 3*4096, f)
		f.Fail(g.Sync, syscall.EIO)
		isFinal(t, g, m, f, region.PersistRanges(m, rs), syscall.EIO)
	}
}

// What was acknowledged before the failure survives.
func testAcknowledged(t *testing.T, g Target) {
	f := NewFaults()
	m := g.Create(t, 4096, f)
	store(t, m, 0, []byte("acknowledged"))
	persist(t, m, 0, 12)
	f.FailOnce(g.Sync, syscall.EIO)
	store(t, m, 512, []byte("not"))
	if m.Persist(512, 3) == nil {
		t.Error("no error")
	}
	m = g.Crash(t, m)
	if got := string(m.Bytes()[:12]); got != "acknowledged" {
		t.Errorf("%q", got)
	}
	persist(t, m, 0, 12) // reopened, it is as good as new
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// The kernel reports a failed write-back to one caller. No other caller may get success for what was
// stored before it: here nobody does, since the first sync fails.
func testFailsConcurrently(t *testing.T, g Target) {
	f := NewFaults()
	m := g.create(t, 64*8, f)
	f.FailOnce(g.Sync, syscall.EIO)
	var acked atomic.Int32
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			store(t, m, w*64, []byte{1})
			if m.Persist(w*64, 64) == nil {
				acked.Add(1)
			}
		})
	}
	wg.Wait()
	if n := acked.Load(); n != 0 {
		t.Errorf("%d acknowledged", n)
	}
	if n := f.Count(g.Sync); n != 1 {
		t.Errorf("%d syncs, want 1", n)
	}
}

// ADVERSARY 25: no space, for the only range, or for the first of two.
func testFull(t *testing.T, g Target) {
	const size = 4 * 4096
	for _, rs := range [][]region.Range{{{Off: 0, N: size}}, {{Off: 0, N: 1}, {Off: 3 * 4096, N: 1}}} {
		f := NewFaults()
		m := g.create(t, size, f)
		f.FailOnce(g.Write, syscall.ENOSPC)
		isFinal(t, g, m, f, region.PersistRanges(m, rs), syscall.ENOSPC)
	}
}

// ADVERSARY 25: the file is truncated. Success would cover lost octets, wherever the range lies, even
// after somebody has given the file its length back.
func testTruncated(t *testing.T, g Target) {
	const size = 1 << 16
	for _, cut := range []int{0, 1, 4096, size - 1} {
		for _, r := range []region.Range{{Off: 0, N: 1}, {Off: 0, N: size}, {Off: size - 64, N: 64}, {Off: 0, N: 0}} {
			f := NewFaults()
			m := g.create(t, size, f)
			store(t, m, 0, []byte("stored"))
			g.Truncate(t, m, cut)
			err := m.Persist(r.Off, r.N)
			isFinal(t, g, m, f, err, region.ErrRegionLost)
			g.Truncate(t, m, size)
			isFinal(t, g, m, f, err, region.ErrRegionLost)
		}
	}
}

// ADVERSARY 25: the file is truncated while it is being synced, which succeeds.
func testTruncatedDuring(t *testing.T, g Target) {
	f := NewFaults()
	m := g.create(t, 1<<16, f)
	entered, release := f.Hang(g.Sync)
	done := make(chan error)
	go func() { done <- m.Persist(0, 64) }()
	<-entered
	g.Truncate(t, m, 4096)
	release()
	isFinal(t, g, m, f, <-done, region.ErrRegionLost)
}

// ADVERSARY 25: touching octets that are gone is an error, and final.
func testFaults(t *testing.T, g Target) {
	const size = 1 << 16
	for name, touch := range map[string]func(region.Guarded) error{
		"store": func(m region.Guarded) error { return m.Store(size-8, make([]byte, 8)) },
		"load":  func(m region.Guarded) error { return m.Load(make([]byte, size), 0) },
		"guard": func(m region.Guarded) error {
			return m.Guard(0, size, func() error { m.Bytes()[size/2]++; return nil })
		},
		"system call": func(m region.Guarded) error { return m.Guard(0, size, func() error { return syscall.EFAULT }) },
	} {
		t.Run(name, func(t *testing.T) {
			f := NewFaults()
			m, ok := g.create(t, size, f).(region.Guarded)
			if !ok {
				t.Fatal("access to it can fault, but it is not Guarded")
			}
			g.Truncate(t, m, 0)
			err := touch(m)
			isFinal(t, g, m, f, err, region.ErrRegionLost)
			if err := touch(m); !errors.Is(err, region.ErrRegionLost) {
				t.Errorf("again: %v", err)
			}
			g.Truncate(t, m, size) // zeros again, and no more faults
			for _, err := range []error{m.Load(make([]byte, 1), 0), m.Store(0, []byte{1})} {
				if !errors.Is(err, region.ErrRegionLost) {
					t.Errorf("after the file has got its length back: %v", err)
				}
			}
		})
	}
}
