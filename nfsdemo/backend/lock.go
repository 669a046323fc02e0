package backend

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// LockOwner is who holds locks: a process of a client. Its own locks never keep it waiting.
type LockOwner struct {
	Client string
	ID     uint64 // of the process, at the client
}

// LockEnd as Lock.End means that a lock reaches to the end of the file, wherever that will be.
const LockEnd = math.MaxUint64

// Lock is a range of octets that an owner holds, or wants.
type Lock struct {
	Owner      LockOwner
	Exclusive  bool   // else shared with other owners
	Start, End uint64 // End is the last octet, or LockEnd
}

// Conflicts reports whether l and m cannot be held at the same time.
func (l *Lock) Conflicts(m *Lock) bool {
	return l.Start <= m.End && m.Start <= l.End && (l.Exclusive || m.Exclusive) && l.Owner != m.Owner // names take longest
}

// Locker is an optional part of an FS: it keeps the advisory locks of files, for instance in
// what several servers share. For an FS that has none, the server keeps them in its own memory, where only
// its own clients meet. Handles are those of Node.AppendHandle, borrowed. All methods are safe for
// concurrent use.
//
// Locks are those of fcntl(2): an owner who locks a range again replaces what he holds of it, and one
// who unlocks a part keeps the rest.
type Locker interface {
	// TestLock returns a *LockedError if l could not be given to its owner now.
	TestLock(ctx context.Context, handle []byte, l *Lock) error
	// SetLock gives l to its owner. If others are in the way, it returns a *LockedError or, with
	// wait, waits until they are not. When ctx ends, it returns soon, and its error says that the lock was
	// not given. If there are too many locks, or too many that wait, the error is ErrNoLocks.
	SetLock(ctx context.Context, handle []byte, l *Lock, wait bool) error
	// Unlock takes from l.Owner what he holds of the range of l, perhaps nothing. If that would leave too
	// many pieces, the error is ErrNoLocks, and he keeps it.
	Unlock(ctx context.Context, handle []byte, l *Lock) error
	// ReleaseLocks takes from all owners of a client what they hold.
	ReleaseLocks(ctx context.Context, client string) error
	// HoldsLock reports whether the owner of l holds all of its range, exclusively if l is. These
	// locks outlive the server: who reclaims one must still hold it, since another one may have had it otherwise.
	HoldsLock(ctx context.Context, handle []byte, l *Lock) (bool, error)
}

// ErrNoLocks: a limit on locks is reached.
var ErrNoLocks = errors.New("backend: too many locks: unlock some, or wait")

// LockedError reports that a lock of another owner is in the way.
type LockedError struct{ Holder Lock }

// Error says whose lock it is.
func (e *LockedError) Error() string {
	kind := "a shared"
	if e.Holder.Exclusive {
		kind = "an exclusive"
	}
	return fmt.Sprintf("backend: %s lock of process %d of %q is in the way: wait for it, or try again later", kind, e.Holder.Owner.ID, e.Holder.Owner.Client)
}
