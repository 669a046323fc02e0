package backend

import (
	"net"

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
