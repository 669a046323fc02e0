package pmem

// Stats has the counters of a memory.
type Stats struct {
	Persists uint64 // calls that returned nil
	Octets   uint64 // in the ranges of those calls
	Flushes  uint64 // fewer than Persists if calls shared one
	Pinned   bool   // a call that outlived its deadline holds the memory
}

// Stats returns the counters.
func (m *Memory) Stats() Stats {
	flushes, pinned := m.fl.stats()
	return Stats{Persists: m.persists.Load(), Octets: m.octets.Load(), Flushes: flushes, Pinned: pinned}
}

// Pinned returns how many memories of the process cannot be closed because a system call hangs,
// for statistics. The number falls when such a call returns.
func Pinned() int { return int(pinned.Load()) }
