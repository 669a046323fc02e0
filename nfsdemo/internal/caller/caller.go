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

import (
	"errors"
	"slices"
)

// None is the id that setfsuid and chown take for "no change". No user has it.
const None = ^uint32(0)

// Identity is who the kernel takes a system call for. It must not be changed while it is in use.
type Identity struct {
	UID, GID uint32
	Groups   []uint32
}

// Equal reports whether the kernel cannot tell a from b.
func (a *Identity) Equal(b *Identity) bool {
	return a.UID == b.UID && a.GID == b.GID && slices.Equal(a.Groups, b.Groups)
}

// ErrCannot means that this process acts as itself only.
var ErrCannot = errors.New("caller: to act as others, run as root, or with CAP_SETUID and CAP_SETGID, on Linux")

// ErrRefused means that the kernel does not let this process act as an identity: in a user namespace, for
// example, one that is not mapped.
var ErrRefused = errors.New("caller: the kernel refuses these ids: squash them, or map them into the user namespace")
