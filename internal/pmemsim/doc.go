// Package pmemsim is a model of persistent memory that tests can crash: Sim, a deterministic
// region.Memory in the heap, for tests of recovery and for benchmarks without a disk. Its errors are
// those of package pmem.
//
//	sim := pmemsim.New(1<<20, &pmemsim.Options{Step: func(s *pmemsim.Sim) {
//		for im := range s.Told().Crashes(seed, 1000) { ... recover from im.Open() ... }
//	}})
//
// [Explore] checks that a storage survives crashes. It runs a workload on a Sim, stops everything at every
// store, flush and message, and checks what recovery finds in every memory that such a crash could leave.
//
//	report, err := pmemsim.Explore(&pmemsim.Script{
//		Size: 1 << 14,
//		Run: func(x *pmemsim.Run) error {
//			...                         // stores and flushes on x.Mem
//			x.Sent(1, payload)          // before the first octet of record 1 is stored
//			x.Acked(1)                  // after somebody was told that it is durable
//		},
//		Recover: func(octets []byte) ([]pmemsim.Record, error) { ... },
//	}, pmemsim.Budget{})
//
// It requires that all acknowledged records are recovered, and only records that were sent: without
// gaps, in order, with the payloads that were sent, and none that is Gone. Records whose effects
// are durable elsewhere (Applied) need not be recovered. A Violation prints the difference and the
// image.
//
// A workload is deterministic and runs in one goroutine. The script chooses the order of
// operations, for example from a seed.
package pmemsim
