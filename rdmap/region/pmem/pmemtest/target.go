package pmemtest

import (
	"testing"

	"github.com/stag-rdma/stag/rdmap/region/pmem"

	"github.com/stag-rdma/stag/rdmap/region"
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
