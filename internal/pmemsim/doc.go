// Package pmemsim is a model of persistent memory that tests can crash: Sim, a deterministic
// region.Memory in the heap, for tests of recovery and for benchmarks without a disk. Its errors are
// those of package pmem.
//
//	sim := pmemsim.New(1<<20, &pmemsim.Options{Step: func(s *pmemsim.Sim) {
//		for im := range s.Told().Crashes(seed, 1000) { ... recover from im.Open() ... }
//	}})
package pmemsim
