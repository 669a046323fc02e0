// Package backend is what an NFS server needs from a file system: an interface to files that
// are named by opaque handles instead of paths.
//
// Package dir implements it over a directory, package mem in memory, and package backendtest is
// the test suite that every implementation must pass.
//
// # Division of work
//
// The server decodes calls, maps callers to identities, checks names, and builds weak cache
// consistency data. A backend decides what an identity may do (Node.As), refuses what the kind
// of file does not allow (Lookup in a file is NFS3ERR_NOTDIR), and is responsible for durability:
// an operation on names or attributes is durable when it returns (RFC 1813 Sections 1.3.1 and
// 4.8), and WRITE and COMMIT obey stable_how.
//
// # Errors
//
// Every error is an nfs3.Status; the server answers any other error with NFS3ERR_IO.
//
// # Concurrency
//
// All methods of FS and Node are safe for concurrent use. Operations on the same directory or
// file take effect one after the other, in some order.
//
// # Memory
//
// Read and Write borrow the caller's slice until they return. Package copies counts the octets
// that are copied in user space on the way.
package backend

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/internal/caller"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// MaxHandle is the length of a backend's longest handle in octets: nfs3.MaxHandle less the
// export number that the server adds.
const MaxHandle = nfs3.MaxHandle - 4

// FS is a file system.
type FS interface {
	// Root returns the root directory, as this process sees it: see Node.As.
	Root() Node
	// Resolve returns the file of a handle that AppendHandle made, perhaps in an earlier
	// process. It borrows handle. Errors: ErrBadHandle if the octets never were a handle,
	// ErrStale if the file is gone, ErrJukebox if it takes longer to find out. If that is a search, the client, known by
	// its address, waits for what its handles cost, and others do not; nil: this process.
	Resolve(client net.Addr, handle []byte) (Node, error)
	// Ready reports that nothing up to the Write itself waits for a disk: neither Resolve of the
	// handle, nor Attr of its file, nor that the file be opened to be written by who. It does not wait
	// either. Nobody asks an FS whose calls never wait (Info.MayBlock).
	Ready(who *caller.Identity, handle []byte) bool
	// Info returns the constants of the file system.
	Info() Info
	// Usage returns the counts of octets and files that FSSTAT reports.
	Usage() (Usage, error)
	// Close flushes and releases everything that the file system holds. Its nodes must not
	// be used afterwards.
	Close() error
}

// Info is what does not change while a file system is in use.
type Info struct {
	MaxFileSize uint64 // octets
	LinkMax     uint32
	NameMax     uint32 // octets
	CaseFolding bool   // names that differ only in case are the same
	// AtomicWcc says that files are changed only through this FS. So if the server excludes
	// other calls, the attributes that it reads before and after an operation are exact.
	AtomicWcc bool
	// MayBlock says that calls may wait for a disk.
	MayBlock bool
	// Owners says that Node.As is obeyed. If not, every caller has the rights of UID and GID,
	// the user of this process, and new files belong to that user.
	Owners   bool
	UID, GID uint32
}

// Usage counts the octets and files of a file system.
type Usage struct {
	TotalBytes, FreeBytes, AvailBytes uint64
	TotalFiles, FreeFiles, AvailFiles uint64
}

// Init is a new file, and its initial state.
type Init struct {
	Type   nfs3.FileType // 0: regular
	Target string        // of a symbolic link; it is not interpreted
	Rdev   nfs3.Device   // of a device
	// Attr holds the attributes to set. It sets the mode, of which a default ACL of the
	// directory may take something. The size counts only for regular files. The owner is the
	// caller, the group his or that of the directory; only root may ask for another owner, and
	// others only for a group that they are in: what they may not have is not given.
	Attr nfs3.SetAttr
	// Verf, if not nil, is kept with the file until it is written, or its attributes are set: see Create.
	Verf *nfs3.CreateVerf
	// Call, if not nil, is kept with the file, if the FS is Shared.
	Call *CallID
}

// Node is a file of any kind in a file system.
type Node interface {
	// As returns the file as who sees it: what it does, and what Nodes that come from it do, is
	// what who may do, and errors say what he may not. A nil who is this process, which may do
	// what the system lets it do. As borrows who for as long as such Nodes are used.
	As(who *caller.Identity) Node

	// AppendHandle appends the handle, at most MaxHandle octets, to b. A file has the same
	// handle under all its names; a later file has a different one.
	AppendHandle(b []byte) []byte
	// Attr returns the attributes, or ErrStale.
	Attr() (nfs3.Attr, error)
	// SetAttr changes attributes: the size first, the times last, so that the given times
	// stay. It borrows a.
	SetAttr(a *nfs3.SetAttr) error
	// Access returns those of want that the caller has.
	Access(want nfs3.Access) (nfs3.Access, error)
	// Open returns the error with which Read, or with write a Write of n octets at off, would refuse the caller now. It
	// reserves nothing.
	//
	// A protocol without OPEN needs two exceptions (RFC 1813 Section 4.4): the owner of a file
	// may always read and write it, and whoever may execute it may read it.
	Open(write bool, off uint64, n int) error

	// ReadLink returns the target of a symbolic link; ErrInval for other files.
	ReadLink() (string, error)
	// Read reads a regular file into p, which it borrows. It reads len(p) octets, or fewer if
	// the file ends before; at and after the end n is 0 and err is nil.
	Read(p []byte, off uint64) (n int, err error)
	// Write writes p, which it borrows, to a regular file. It returns how many octets were
	// written, how stable they are, and the write verifier that was valid before the first
	// of them was written.
	Write(p []byte, off uint64, how nfs3.StableHow) (WriteResult, error)
	// Commit makes n octets from off durable, or all from off if n is 0. It returns the
	// write verifier that covers them.
	Commit(off uint64, n uint32) (nfs3.WriteVerf, error)

	// The rest works on directories; on other files every method returns ErrNotDir. A name has 1 to Info.NameMax octets,
	// without '/' and NUL, and is not "." or "..", which only Lookup accepts.

	// Lookup returns the file with a name; ErrNoEnt, ErrAcces. ".." of the root is the root.
	Lookup(name string) (Node, nfs3.Attr, error)
	// Create makes a file of any kind; ErrExist if the name is taken, ErrPerm or ErrNotSupp if this kind cannot be made. A
	// call that comes again gets what it has made: the regular file that still has in.Verf, or in a Shared FS the file of
	// in.Call, with those attributes of in that a crash has left unset, unless somebody has visibly changed it since. It borrows in.
	Create(name string, in *Init) (Node, nfs3.Attr, error)
	// Remove removes a name that is not a directory, ErrIsDir if it is, or with dir an empty directory; ErrNotDir, ErrNotEmpty.
	Remove(name string, dir bool) error
	// Rename moves a name and replaces an existing file of the same kind: ErrExist if the
	// kinds differ, ErrNotEmpty, ErrInval if a directory would move into itself. If both
	// names are the same file, nothing happens.
	Rename(from string, to Node, name string) error
	// Link gives file one more name; ErrExist if the name is taken.
	Link(file Node, name string) error
	// ReadDir calls fn for the entries after cookie (0: from the start) until fn returns
	// false, which means that it did not take that entry. With plus, entries have attributes
	// and handles, where these are available. It returns the cookie verifier, and whether
	// the end was reached. Cookies stay valid while names come and go: a name that exists
	// throughout is returned once. ErrBadCookie if verf does not match the cookie.
	ReadDir(cookie uint64, verf nfs3.CookieVerf, plus bool, fn func(*nfs3.DirPlusEntry) bool) (nfs3.CookieVerf, bool, error)
}

// WriteResult is the outcome of a Write.
type WriteResult struct {
	N         int // octets
	Committed nfs3.StableHow
	Verf      nfs3.WriteVerf
}

// ACLs is an optional part of a Node: POSIX ACLs, that which decides about the file itself, or of a directory that which
// new files in it inherit.
type ACLs interface {
	// ACL returns an ACL, nil if the file has none beside its mode; ErrNotSupp if it can have none.
	ACL(inherited bool) (nfs3.ACL, error)
	// SetACL replaces an ACL; an empty one takes it away. It borrows a.
	SetACL(inherited bool, a nfs3.ACL) error
}

// CheckName returns nil if name may be looked up, "." and ".." included; ErrAcces if it is empty
// or contains '/' or NUL; ErrNameTooLong.
//
// Choice: RFC 1813 Section 3.3.3 does not say which error such names get.
func CheckName(name string) error {
	switch {
	case name == "" || strings.ContainsAny(name, "/\x00"):
		return nfs3.ErrAcces
	case len(name) > nfs3.MaxName:
		return nfs3.ErrNameTooLong
	}
	return nil
}

// IsDots reports whether name is "." or "..".
func IsDots(name string) bool { return name == "." || name == ".." }

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

// Quoter is implemented by an FS whose file system limits what users and groups store in it.
type Quoter interface {
	// Quota returns the limits of a user or a group, and what he stores. NFS3ERR_NOTSUPP: nothing is limited;
	// NFS3ERR_PERM: this process may not know.
	Quota(group bool, id uint32) (Quota, error)
}

// Quota is what somebody stores, and may store. A limit of 0 is none.
type Quota struct {
	Bytes, SoftBytes, HardBytes uint64
	Files, SoftFiles, HardFiles uint64
	// When the soft limits become hard ones, if he has exceeded them.
	BytesTill, FilesTill time.Time
}

// CallID tells calls apart. A call that a client sends again, because it has no answer, has that of the first.
type CallID [16]byte

// Shared is an optional part of an FS that several servers serve. A call that comes again may come to another
// server, which must then not run it twice, nor answer that it fails because it has run. What makes a file leaves its
// CallID there (Create); what removes or moves a name is remembered.
type Shared interface {
	// Remember keeps for some minutes, for all servers, what a call has found before it changes anything. It
	// survives whatever a change survives that begins after Remember has returned. It returns what was found the first
	// time, and how many times id was remembered, with this one. It borrows found.
	Remember(ctx context.Context, id CallID, found []byte) (was []byte, times int, err error)
}
