// Package caller makes the kernel take system calls of this process for those of somebody else, so that
// the kernel, and not this process, decides what they may do.
//
//	sw, err := caller.New() // ErrCannot: neither root nor CAP_SETUID and CAP_SETGID
//	err = sw.Do(&caller.Identity{UID: 1000, GID: 1000}, func() error {
//		return unix.Faccessat(dir, name, unix.R_OK, 0)
//	})
//
// # What is switched
//
// The file system ids and the supplementary groups of one thread, for as long as the function runs, and
// the capabilities that let root pass the checks of files: those that Linux's own NFS server drops, among
// them CAP_SYS_RESOURCE, which takes reserved blocks and passes quotas. The system calls are raw, because
// those of package syscall change all threads.
//
// Groups are not switched for uid 0: its capabilities decide, not its groups.
//
// # A thread is never left with foreign ids
//
// Do locks its goroutine to the thread and gives the thread its own ids back also when the function
// panics. If the kernel refuses that, the process ends at once, without deferred functions: a panic
// could be recovered, and then the thread would serve somebody else.
//
// # Other effects
//
// Between calls a thread has CAP_SYS_RESOURCE or not, as its last caller left it. So the process's own files may
// take reserved blocks, but it must not count on them.
//
// A process that has switched is not dumpable: it leaves no core file.
package caller
