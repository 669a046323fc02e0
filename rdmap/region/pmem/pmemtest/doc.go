// Package pmemtest has a model of persistent memory that can crash, a suite for memories, and faults.
//
// [Run] tests whether a memory keeps the promises of region.Memory: octets for which Persist has returned nil survive,
// an error of Persist is final, and access to memory that is gone is an error and not the end of the process.
//
//	func TestMine(t *testing.T) {
//		pmemtest.Run(t, pmemtest.Target{
//			Create: func(t testing.TB, size int, f *pmemtest.Faults) region.Memory { ... },
//			Crash:  func(t testing.TB, m region.Memory) region.Memory { ... },
//		})
//	}
//
// Run needs only Create; it tests only what the Target can do. The memories of package pmem and [Sim] pass all of it.
//
// [Faults] counts the system calls of those memories, and makes them fail or hang, also in tests of what is built on
// them:
//
//	f := pmemtest.NewFaults()
//	m, err := pmem.Open(pmem.File, path, f.Hook())
//	f.FailOnce(pmem.OpDatasync, syscall.EIO) // the next one
//
// Truncation needs no hook: truncate the file.
//
// [Sim] is a deterministic region.Memory in the heap, for tests of recovery and for benchmarks without a disk. Its
// errors are those of package pmem.
//
//	sim := pmemtest.NewSim(1<<20, &pmemtest.SimOptions{Step: func(s *pmemtest.Sim) {
//		for im := range s.Told().Crashes(seed, 1000) { ... recover from im.Open() ... }
//	}})
//
// [Explore] checks that a storage survives crashes. It runs a workload on a Sim, stops everything at every
// store, flush and message, and checks what recovery finds in every memory that such a crash could leave.
//
//	report, err := pmemtest.Explore(&pmemtest.Script{
//		Size: 1 << 14,
//		Run: func(x *pmemtest.Trial) error {
//			...                         // stores and flushes on x.Mem
//			x.Sent(1, payload)          // before the first octet of record 1 is stored
//			x.Acked(1)                  // after somebody was told that it is durable
//		},
//		Recover: func(octets []byte) ([]pmemtest.Record, error) { ... },
//	}, pmemtest.Budget{})
//
// It requires that all acknowledged records are recovered, and only records that were sent: without
// gaps, in order, with the payloads that were sent, and none that is Gone. Records whose effects
// are durable elsewhere (Applied) need not be recovered. A Violation prints the difference and the
// image.
//
// A workload is deterministic and runs in one goroutine. The script chooses the order of
// operations, for example from a seed.
package pmemtest
