// Package pmem provides durable memory for package region: memory that outlives the process. RDMA
// Flush with persistence calls Persist, and the application may call it too.
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
//	file  Peers access a copy in the heap. Persist writes exactly the range and calls
//	      fdatasync. Octets reach the file only by Persist or a requested write-back. A
//	      memory of whole blocks (4096 octets), at most 64 MiB, is written past the page
//	      cache where the file system allows that (Linux 6.1: ext4, XFS). This is a sixth
//	      faster, and costs a second copy in the heap.
//	mmap  The pages of the file. Persist calls msync. There is no copy, but accesses fault
//	      if the file is truncated, and stores may reach the medium before any Persist.
//	dax   Persistent memory. Persist writes cache lines back, without a system call. Open
//	      refuses this kind unless the kernel grants MAP_SYNC and the processor (amd64) has
//	      the instruction: otherwise nobody can tell whether octets are durable.
//
// Promise. The file is locked, has no holes, and keeps its size. Persist returns nil only if the system
// reported success, and the file then still had its size and a name. The first error is final: every
// later Persist returns it and does nothing, because a second fdatasync would report success for what
// the first one lost. Whoever reopens the file must recover, and finds only durable octets: Open syncs
// the file, and makes the system drop its cached pages. Choice: it does so with FADV_DONTNEED, which
// keeps pages that another process has mapped, and all pages on tmpfs. Persist does not notice if
// somebody truncates the file and extends it again between two calls. The lock protects against that,
// but it is advisory.
//
// Verify. ReadBack reads what the medium holds, which a Verify hashes: past the page cache where the file
// system allows that (STATX_DIOALIGN), otherwise after the cached pages were dropped, and only if none of
// them stayed. Where that is impossible, as on tmpfs, Verifiable says why, the right Verify cannot be
// registered, and ReadBack refuses. What lies below the file system, such as the cache of a disk or a file
// server, counts as the medium.
//
// Faults. Touching a mapping whose file was truncated raises SIGBUS, which ends the process. Within
// Store, Load and Guard it is an error instead, region.ErrRegionLost, and so is EFAULT of a system call
// in Guard. They use runtime/debug.SetPanicOnFault, which covers only the goroutine that calls them:
// the function passed to Guard must touch the octets itself. The methods CopyIn, CopyOut and Guard of
// region.View call these for memory that needs them.
//
// Hangs. A system call that does not return holds its goroutine, the memory and the lock. At the
// deadline of Persist the memory fails, and every caller but the one in that goroutine gets
// region.ErrPinned. Close gives up at its own deadline, with the same error. Nothing is unmapped.
//
// Errors are of type *Error. errors.Is finds their kind and cause, and the message says what to do
// next. Linux comes first: other systems have only file, and only where there is flock.
//
// Package pmemtest has a conformance suite for any region.Memory, and faults to inject.
package pmem
