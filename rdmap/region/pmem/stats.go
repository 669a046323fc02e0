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
	s := m.fl.stats()
	s.Persists, s.Octets = m.persists.Load(), m.octets.Load()
	return s
}

func (f *flusher) stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Stats{Flushes: f.commits, Pinned: f.pins > 0}
}
