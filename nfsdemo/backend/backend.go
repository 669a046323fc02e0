package backend

import "github.com/stag-rdma/stag/nfsdemo/nfs3"

// MaxHandle is the longest handle of a backend in octets: what nfs3.MaxHandle leaves after
// the server's export number.
const MaxHandle = nfs3.MaxHandle - 4

// FS is a file system.
type FS interface {
	// Root returns the root directory.
	Root() Node
	// Resolve finds the file of a handle that AppendHandle made, perhaps in an earlier life
	// of the process. It borrows handle. Errors: ErrBadHandle for octets that never were
	// one, ErrStale for a file that is gone, ErrJukebox when that takes longer to find out.
	Resolve(handle []byte) (Node, error)
	// Info returns constants of the file system.
	Info() Info
	// Usage returns space and file counts as FSSTAT reports them.
	Usage() (Usage, error)
	// Close flushes and releases what the file system holds. Its nodes must not be used
	// afterwards.
	Close() error
}

// Info is what does not change while a file system is in use.
type Info struct {
	MaxFileSize uint64 // octets
	LinkMax     uint32
	NameMax     uint32 // octets
	CaseFolding bool   // names that differ in case only are the same
	// AtomicWcc says that nobody changes files but through this FS, so that attributes
	// taken before and after an operation, with the server keeping other calls away, are
	// truly those before and after.
	AtomicWcc bool
	// MayBlock says that calls may wait for a disk.
	MayBlock bool
	// Owners says that the ids of an Init and SetAttr are obeyed. If not, new files belong
	// to UID and GID, the user of this process, which also is whose rights bound every call.
	Owners   bool
	UID, GID uint32
}

// Usage is the state of a file system in octets and files.
type Usage struct {
	TotalBytes, FreeBytes, AvailBytes uint64
	TotalFiles, FreeFiles, AvailFiles uint64
}

// Init is what a new file begins with.
type Init struct {
	// Attr holds the attributes to set; mode bits that are not set get a default. The size
	// is obeyed for regular files.
	Attr nfs3.SetAttr
	// UID and GID are the owner, where Info.Owners; SetUID and SetGID of Attr do not count.
	UID, GID uint32
	// Verf, if not nil, is kept with the file for HasVerf.
	Verf *nfs3.CreateVerf
}

// Node is a file of any kind in a file system.
type Node interface {
	// AppendHandle appends the handle: the same octets for the same file, under every name
	// it has, and different ones for a later file.
	AppendHandle(b []byte) []byte
	// Attr returns the attributes, or ErrStale.
	Attr() (nfs3.Attr, error)
	// SetAttr changes attributes, the size first. Times change after that, so that a given
	// time is what remains.
	SetAttr(a *nfs3.SetAttr) error

	// ReadLink returns the target of a symbolic link; ErrInval for other files.
	ReadLink() (string, error)
	// Read reads regular files: min(len(p), octets to the end of the file) octets, n less
	// than len(p) only at the end. It fills p.
	Read(p []byte, off uint64) (n int, err error)
	// Write writes regular files and returns how much, the stability it has, and the write
	// verifier that was valid before the first octet was written. It borrows p.
	Write(p []byte, off uint64, how nfs3.StableHow) (WriteResult, error)
	// Commit makes n octets at off durable, all that follow if n is 0, and returns the
	// write verifier that covers them.
	Commit(off uint64, n uint32) (nfs3.WriteVerf, error)
	// HasVerf says whether this is the regular file that Create made with v.
	HasVerf(v nfs3.CreateVerf) (bool, error)

	Dir
}

// WriteResult is the outcome of a Write.
type WriteResult struct {
	N         int // octets
	Committed nfs3.StableHow
	Verf      nfs3.WriteVerf
}

// Dir is the part of a Node that works on directories; on other files every method answers
// ErrNotDir. Names are not empty, ".", "..", longer than Info.NameMax, and have no '/' or
// NUL, except that Lookup takes the two dots as well.
type Dir interface {
	// Lookup finds a name: ErrNoEnt, ErrAcces. ".." of the root is the root.
	Lookup(name string) (Node, nfs3.Attr, error)
	// Create makes a regular file; ErrExist if the name is taken.
	Create(name string, in *Init) (Node, nfs3.Attr, error)
	// Mkdir makes a directory; ErrExist if the name is taken.
	Mkdir(name string, in *Init) (Node, nfs3.Attr, error)
	// Symlink makes a symbolic link; ErrExist if the name is taken.
	Symlink(name, target string, in *Init) (Node, nfs3.Attr, error)
	// Mknod makes a FIFO, socket or device; ErrExist if the name is taken, ErrPerm or
	// ErrNotSupp if this kind cannot be made.
	Mknod(name string, t nfs3.FileType, dev nfs3.Device, in *Init) (Node, nfs3.Attr, error)
	// Remove removes a name that is not a directory; ErrIsDir if it is.
	Remove(name string) error
	// Rmdir removes an empty directory; ErrNotDir, ErrNotEmpty.
	Rmdir(name string) error
	// Rename moves a name, in place of an existing one of the same kind: ErrExist if the
	// kinds differ, ErrNotEmpty, ErrInval when a directory would move into itself. If both
	// names are the same file, nothing happens.
	Rename(from string, to Node, name string) error
	// Link gives file, which is not a directory, one more name.
	Link(file Node, name string) error
	// ReadDir calls fn for the entries after cookie, 0 for the start, until fn returns
	// false; that entry was not taken. With plus, the entries have attributes and handles
	// where these could be had. It returns the cookie verifier, and whether the end was
	// reached. A cookie stays valid while names come and go: what exists all the time is
	// returned once. ErrBadCookie if the verifier does not go with the cookie.
	ReadDir(cookie uint64, verf nfs3.CookieVerf, plus bool, fn func(*nfs3.DirPlusEntry) bool) (nfs3.CookieVerf, bool, error)
}
