// Package pmemtest proves that a memory keeps the promises of region.Memory: octets
// that Persist has answered for survive, a failed one is never taken back, a memory
// that is gone is an error and not the end of the process.
//
//	func TestMine(t *testing.T) {
//		pmemtest.Run(t, pmemtest.Target{
//			Create: func(t testing.TB, size int, f *pmemtest.Faults) region.Memory { ... },
//			Crash:  func(t testing.TB, m region.Memory) region.Memory { ... },
//		})
//	}
//
// Run needs Create only; what a Target cannot do is not asked of it. The memories of
// package pmem pass all of it.
//
// Faults makes the system calls of those memories fail, hang, or be counted, also in
// tests of what is built upon them:
//
//	f := pmemtest.NewFaults()
//	m, err := pmem.Open(pmem.File, path, &pmem.Options{Hooks: f.Hooks()})
//	f.FailOnce(pmemtest.Datasync, syscall.EIO) // the next one
//
// Wrap does the same for any other memory. Truncation needs no hook: cut the file.
package pmemtest
