package billy

import (
	"cmp"
	"container/list"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io/fs"
	"net"
	"os"
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
