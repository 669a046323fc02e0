// Package pmemtest tests whether a memory keeps the promises of region.Memory: octets
// for which Persist has returned nil survive, an error of Persist is final, and access
// to memory that is gone is an error and not the end of the process.
//
//	func TestMine(t *testing.T) {
//		pmemtest.Run(t, pmemtest.Target{
//			Create: func(t testing.TB, size int, f *pmemtest.Faults) region.Memory { ... },
//			Crash:  func(t testing.TB, m region.Memory) region.Memory { ... },
//		})
//	}
//
// Run needs only Create; it tests only what the Target can do. The memories of
// package pmem and the crash model of pmemsim pass all of it.
//
// Faults counts the system calls of those memories, and makes them fail or hang, also in
// tests of what is built on them:
//
//	f := pmemtest.NewFaults()
//	m, err := pmem.Open(pmem.File, path, &pmem.Options{Hooks: f.Hooks()})
//	f.FailOnce(pmemtest.Datasync, syscall.EIO) // the next one
//
// Wrap does the same for any other memory. Truncation needs no hook: truncate the file.
package pmemtest
