package billy

import (
	"cmp"
	"container/list"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path"
	"sync"
	"syscall"

	"github.com/go-git/go-billy/v5"
	"github.com/stag-rdma/stag/internal/shared"
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/internal/caller"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// Defaults of [Config].
const (
	defaultMaxFiles    = 1 << 20
	defaultMaxFileSize = 1 << 30
)

// Config limits what clients can do. New copies it.
type Config struct {
	// MaxFiles is how many files are remembered by their handles. If zero, 1,048,576.
	MaxFiles uint64
	// MaxFileSize limits the size of a file in octets, also that of a sparse one, which in memfs takes
	// memory. If zero, 1 GiB.
	MaxFileSize uint64
	// Concurrent says that several goroutines may use the file system at a time, as those of osfs and of ReadOnly
	// (without being told) and unlike memfs: then a call that hangs in it holds up only those for the same name, or
	// that rename a directory above it. If not set, one call runs at a time.
	Concurrent bool
}

// FS is a [backend.FS] over a go-billy file system.
type FS struct {
	cfg    Config
	under  billy.Filesystem
	change billy.Change // nil: modes, owners and times cannot be set
	ro     bool
	boot   [8]byte // part of every handle, and the write and cookie verifier
	root   *node

	turn sync.Mutex // held by the one call that runs, unless cfg.Concurrent

	mu    shared.Mutex // guards everything below, and nodes; nobody calls under with it
	freed sync.Cond    // a call has ended
	nodes map[uint64]*node
	next  uint64
	used  list.List // nodes, the most recently used first

	listings []listing // the latest last
	listed   int       // names in them
}

var _ backend.FS = (*FS)(nil)

// New serves under. It takes it: nobody else should change it. Close does not close it.
func New(under billy.Filesystem, cfg *Config) *FS {
	f := &FS{under: under, nodes: make(map[uint64]*node), next: 1}
	if cfg != nil {
		f.cfg = *cfg
	}
	f.cfg.MaxFiles = cmp.Or(f.cfg.MaxFiles, defaultMaxFiles)
	f.cfg.MaxFileSize = cmp.Or(f.cfg.MaxFileSize, defaultMaxFileSize)
	if _, ok := under.(*readOnly); ok { // as net/http uses an io/fs.FS
		f.cfg.Concurrent = true
	}
	f.freed.L = &f.mu
	f.change, _ = under.(billy.Change)
	f.ro = billy.Capabilities(under)&billy.WriteCapability == 0
	rand.Read(f.boot[:]) // never fails (crypto/rand)
	f.root = f.node(nil, "")
	return f
}

// Root returns the root directory.
func (f *FS) Root() backend.Node { return f.root }

// Resolve returns the file of a handle: 8 octets for this process, 8 for the file.
func (f *FS) Resolve(_ net.Addr, h []byte) (backend.Node, error) {
	if len(h) != 16 {
		return nil, nfs3.ErrBadHandle
	}
	if [8]byte(h) != f.boot {
		return nil, nfs3.ErrStale
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.nodes[binary.BigEndian.Uint64(h[8:])]
	if n == nil {
		return nil, nfs3.ErrStale
	}
	f.touch(n)
	return n, nil
}

// Info returns the limits.
func (f *FS) Info() backend.Info {
	return backend.Info{
		MaxFileSize: f.cfg.MaxFileSize, LinkMax: 1, NameMax: nfs3.MaxName, AtomicWcc: true, MayBlock: true,
		UID: uint32(max(os.Getuid(), 0)), GID: uint32(max(os.Getgid(), 0)),
	}
}

// Usage returns numbers that clients take for enough: go-billy does not tell any.
func (f *FS) Usage() (backend.Usage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	const octets, files = 1 << 40, 1 << 30
	free := uint64(octets)
	if f.ro {
		free = 0
	}
	return backend.Usage{
		TotalBytes: octets, FreeBytes: free, AvailBytes: free,
		TotalFiles: files, FreeFiles: files - uint64(len(f.nodes)), AvailFiles: files - uint64(len(f.nodes)),
	}, nil
}

// Close forgets all handles.
func (f *FS) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.nodes)
	f.freed.Broadcast()
	f.listings, f.listed = nil, 0
	return nil
}

// node returns the node of a name in a directory, and makes it if there is none. The caller holds f.mu, or is New.
func (f *FS) node(parent *node, name string) *node {
	if parent != nil {
		if n := parent.kids[name]; n != nil {
			f.touch(n)
			return n
		}
	}
	n := &node{fs: f, id: f.next, parent: parent, name: name}
	n.place = f.used.PushFront(n)
	f.next++
	f.nodes[n.id] = n
	if parent != nil {
		parent.adopt(n)
	}
	for e := f.used.Back(); uint64(len(f.nodes)) > f.cfg.MaxFiles && e != nil; {
		old, _ := e.Value.(*node)
		e = e.Prev()
		if old != n && old != f.root && len(old.kids) == 0 && old.users == 0 && !old.taken {
			f.forget(old)
		}
	}
	return n
}

// touch makes n and the directories above it the most recently used.
func (f *FS) touch(n *node) {
	for ; n != nil; n = n.parent {
		f.used.MoveToFront(n.place)
	}
}

// forget drops a node and those below it: they are gone, or too many. Nobody uses them. The caller holds f.mu.
func (f *FS) forget(n *node) {
	for _, kid := range n.kids {
		f.forget(kid)
	}
	if n.parent != nil && n.parent.kids[n.name] == n {
		delete(n.parent.kids, n.name)
	}
	f.used.Remove(n.place)
	delete(f.nodes, n.id)
}

// status turns an error of go-billy, or of the system below, into one of NFS.
func status(err error) error {
	var s nfs3.Status
	switch {
	case err == nil:
		return nil
	case errors.As(err, &s):
		return s
	case errors.Is(err, fs.ErrNotExist):
		return nfs3.ErrNoEnt
	case errors.Is(err, syscall.ENOTEMPTY):
		return nfs3.ErrNotEmpty
	case errors.Is(err, fs.ErrExist):
		return nfs3.ErrExist
	case errors.Is(err, syscall.EROFS), errors.Is(err, billy.ErrReadOnly):
		return nfs3.ErrROFS
	case errors.Is(err, billy.ErrNotSupported), errors.Is(err, errors.ErrUnsupported):
		return nfs3.ErrNotSupp
	case errors.Is(err, fs.ErrPermission), errors.Is(err, billy.ErrCrossedBoundary):
		return nfs3.ErrAcces
	case errors.Is(err, syscall.ENOSPC):
		return nfs3.ErrNoSpc
	case errors.Is(err, syscall.EDQUOT):
		return nfs3.ErrDQuot
	case errors.Is(err, syscall.EFBIG):
		return nfs3.ErrFBig
	case errors.Is(err, syscall.ENAMETOOLONG):
		return nfs3.ErrNameTooLong
	case errors.Is(err, syscall.ENOTDIR):
		return nfs3.ErrNotDir
	case errors.Is(err, syscall.EISDIR):
		return nfs3.ErrIsDir
	case errors.Is(err, syscall.EINVAL), errors.Is(err, fs.ErrInvalid):
		return nfs3.ErrInval
	}
	return nfs3.ErrIO
}

// Ready reports false: what waits is not known.
func (f *FS) Ready(*caller.Identity, []byte) bool { return false }

// use is what a call does with a file: n, or what is under a name in the directory n. Until the call ends the file stays
// where it is, and so do the directories above it: paths are all that go-billy knows. So calls for several files, and
// those for one file that keeps its name, go side by side.
type use struct {
	n    *node
	name string // "": n itself
	move bool   // the call changes what is under the name, and no other changes names in n
	list bool   // the call reads the names in n, which osfs cannot do while they change
	bad  error  // nobody may have such a name

	at *node // set by begin
}

// begin waits until a call may use all these files together, so that nobody waits with a part of them. It returns
// ErrStale if an n is gone; else end follows, deferred directly.
func (f *FS) begin(uses ...*use) error {
	if !f.cfg.Concurrent {
		f.turn.Lock()
	}
	err := f.take(uses)
	if err != nil && !f.cfg.Concurrent {
		f.turn.Unlock()
	}
	return err
}

func (f *FS) take(uses []*use) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		for _, u := range uses {
			if f.nodes[u.n.id] != u.n {
				return nfs3.ErrStale
			}
		}
		free := true
		for _, u := range uses {
			if u.at = u.n; u.name != "" { // anew in each round: others have moved and removed names
				u.at = f.node(u.n, u.name)
			}
			free = free && u.free()
		}
		if free {
			break
		}
		// Who moves a name would wait for ever if others began with it all the time. Those who move names pass each
		// other: two could keep each other back.
		for _, u := range uses {
			if u.move {
				u.at.wanted++
			}
		}
		f.freed.Wait()
		for _, u := range uses {
			if u.move {
				u.at.wanted--
			}
		}
	}
	for _, u := range uses {
		if u.list {
			u.n.lists++
		}
		if u.move {
			u.at.taken, u.n.changes = true, true
		} else {
			u.at.users++
		}
		for up := u.above(); up != nil; up = up.parent {
			up.users++
		}
	}
	return nil
}

// above is the first directory that has to stay where it is. It does so until the end, while what u moves does not.
func (u *use) above() *node {
	if u.name == "" {
		return u.n.parent
	}
	return u.n
}

// free reports whether u can begin. The caller holds FS.mu.
func (u *use) free() bool {
	if u.move && (u.at.users > 0 || u.n.changes || u.n.lists > 0) || u.list && u.n.changes {
		return false
	}
	for n := u.at; n != nil; n = n.parent {
		if n.taken || n.wanted > 0 && !u.move {
			return false
		}
	}
	return true
}

// end lets go of what begin has taken.
func (f *FS) end(uses ...*use) {
	if !f.cfg.Concurrent {
		shared.Check(recover()) // a file system that needs turns does not survive half of one
		defer f.turn.Unlock()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, u := range uses {
		if u.list {
			u.n.lists--
		}
		if u.move {
			u.at.taken, u.n.changes = false, false
		} else {
			u.at.users--
		}
		for up := u.above(); up != nil; up = up.parent {
			up.users--
		}
		if n := u.at; n.parent != nil && !n.there && n.users == 0 && !n.taken {
			f.forget(n)
		}
	}
	f.freed.Broadcast()
}

// ReadOnly returns fsys as a go-billy file system that cannot be changed: an embed.FS, a zip.Reader, an
// os.DirFS. Files that do not implement [io.ReaderAt] are read from their start for every READ.
func ReadOnly(fsys fs.FS) billy.Filesystem { return &readOnly{fsys} }

type readOnly struct{ fs.FS }

// clean makes a path of go-billy one of io/fs.
func clean(p string) string {
	p = path.Clean("/" + p)[1:]
	if p == "" {
		return "."
	}
	return p
}

func (r *readOnly) Capabilities() billy.Capability {
	return billy.ReadCapability | billy.SeekCapability
}

func (r *readOnly) Open(name string) (billy.File, error) { return r.OpenFile(name, os.O_RDONLY, 0) }

func (r *readOnly) OpenFile(name string, flag int, _ os.FileMode) (billy.File, error) {
	if flag&(os.O_WRONLY|os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND) != 0 {
		return nil, billy.ErrReadOnly
	}
	f, err := r.FS.Open(clean(name))
	if err != nil {
		return nil, err
	}
	return &readOnlyFile{f, r, name}, nil
}

func (r *readOnly) Stat(name string) (os.FileInfo, error)  { return fs.Stat(r.FS, clean(name)) }
func (r *readOnly) Lstat(name string) (os.FileInfo, error) { return fs.Lstat(r.FS, clean(name)) }
func (r *readOnly) Readlink(name string) (string, error)   { return fs.ReadLink(r.FS, clean(name)) }
func (r *readOnly) Join(elem ...string) string             { return path.Join(elem...) }
func (r *readOnly) Root() string                           { return "/" }

// ReadDir leaves out names that vanish meanwhile.
func (r *readOnly) ReadDir(name string) ([]os.FileInfo, error) {
	entries, err := fs.ReadDir(r.FS, clean(name))
	if err != nil {
		return nil, err
	}
	var list []os.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, info)
	}
	return list, nil
}

func (r *readOnly) Chroot(p string) (billy.Filesystem, error) {
	sub, err := fs.Sub(r.FS, clean(p))
	if err != nil {
		return nil, err
	}
	return ReadOnly(sub), nil
}

func (r *readOnly) Create(string) (billy.File, error)           { return nil, billy.ErrReadOnly }
func (r *readOnly) TempFile(string, string) (billy.File, error) { return nil, billy.ErrReadOnly }
func (r *readOnly) Rename(string, string) error                 { return billy.ErrReadOnly }
func (r *readOnly) Remove(string) error                         { return billy.ErrReadOnly }
func (r *readOnly) MkdirAll(string, os.FileMode) error          { return billy.ErrReadOnly }
func (r *readOnly) Symlink(string, string) error                { return billy.ErrReadOnly }

// readOnlyFile is an open file.
type readOnlyFile struct {
	fs.File
	r    *readOnly
	name string
}

func (f *readOnlyFile) Name() string              { return f.name }
func (f *readOnlyFile) Write([]byte) (int, error) { return 0, billy.ErrReadOnly }
func (f *readOnlyFile) Truncate(int64) error      { return billy.ErrReadOnly }
func (f *readOnlyFile) Lock() error               { return nil }
func (f *readOnlyFile) Unlock() error             { return nil }

// Seek implements io.Seeker, if the file does.
func (f *readOnlyFile) Seek(off int64, whence int) (int64, error) {
	if s, ok := f.File.(io.Seeker); ok {
		return s.Seek(off, whence)
	}
	return 0, billy.ErrNotSupported
}

// ReadAt implements io.ReaderAt.
func (f *readOnlyFile) ReadAt(p []byte, off int64) (int, error) {
	if at, ok := f.File.(io.ReaderAt); ok {
		return at.ReadAt(p, off)
	}
	again, err := f.r.FS.Open(clean(f.name))
	if err != nil {
		return 0, err
	}
	defer again.Close()
	if _, err := io.CopyN(io.Discard, again, off); err != nil {
		return 0, err
	}
	n, err := io.ReadFull(again, p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

var _ billy.Filesystem = (*readOnly)(nil)
