// Package pmem makes octets durable: memories to be registered in package region that
// outlive the process, and the model of one that can be crashed. RDMA Flush with
// persistence calls Persist; so may anybody.
//
//	err := pmem.Create("log", 1<<20, nil)            // once: zeros, written and synced
//	m, err := pmem.Open(pmem.File, "log", nil)       // owns the file until Close
//	r, err := table.RegisterMemory(m, region.Options{Access: ...})
//	...
//	err = m.Store(64, record)
//	err = m.Persist(64, len(record))                 // nil: durable
//	...
//	err = r.Invalidate(ctx)                          // first, and without ErrPinned
//	err = m.Close()
//
// Kinds:
//
//	file  what peers reach is a copy in the heap; Persist writes exactly the range and
//	      calls fdatasync. Octets that nobody persisted, or asked to be written back,
//	      never reach the file. A memory of whole blocks (4096 octets), at most 64 MiB, is
//	      written past the page cache where the file system takes that (Linux 6.1: ext4,
//	      XFS): a sixth quicker, for a second copy in the heap.
//	mmap  the pages of the file; Persist calls msync. No copy, but a truncated file
//	      makes every access a fault, and stores may reach the medium unasked.
//	dax   persistent memory; Persist writes cache lines back, without a system call.
//	      Refused unless the kernel grants MAP_SYNC and the processor (amd64) has the
//	      instruction: without either nobody can tell whether octets are durable.
//	sim   type Sim: a crash model in the heap, deterministic, for tests of recovery.
//
// Promise. The file is locked, without holes, and of fixed size. Persist answers nil
// only when the system said so, and the file was then as long as at the start, and had
// a name. The first error is final: every later Persist returns it and calls nothing,
// because a second fdatasync would answer success for what the first one lost. Whoever
// reopens the file must recover, and finds only octets that are durable: Open syncs,
// and makes the system forget what it has cached. Choice: by FADV_DONTNEED, which
// pages that another process has mapped survive, and all of them on tmpfs.
// What a truncation to nothing and a new extension between two Persists destroyed is
// not seen: the lock is the protection, and it is advisory.
//
// Faults. Touching a mapping whose file was cut is SIGBUS: the end of the process.
// Within Store, Load and Guard it is an error, region.ErrRegionLost, and the process
// goes on; so is EFAULT of a system call in Guard. They work by
// runtime/debug.SetPanicOnFault, which covers the goroutine that calls them and no
// other: f of Guard must touch the octets itself. region.View has CopyIn, CopyOut and
// Guard, which call these for memories that need them.
//
// Hangs. A system call that does not return keeps its goroutine, the memory and the
// lock. At the deadline of Persist the memory has failed, with region.ErrPinned, and
// everybody but that goroutine is told; Close gives up at its own deadline, with the
// same error. Nothing is unmapped, and Pinned counts it.
//
// Errors are of type *Error; errors.Is finds their kind and cause; the message says
// what to do next. Linux first: elsewhere only file, where there is flock.
//
// Package pmemtest has the conformance suite for any region.Memory, and faults.
package pmem
