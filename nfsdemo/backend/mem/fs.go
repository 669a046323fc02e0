package mem

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"net"
	"time"

	"github.com/stag-rdma/stag/internal/shared"
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/internal/caller"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// Defaults of [Config].
const (
	defaultCapacity = 1 << 30
	defaultMaxFiles = 1 << 20
)

// Config limits a file system. New copies it.
type Config struct {
	// Capacity limits the octets of file data, counted in pages of 16 KiB. If zero,
	// 1 GiB.
	Capacity uint64
	// MaxFiles limits the number of files of all kinds. If zero, 1,048,576.
	MaxFiles uint64
	// UID and GID own the root directory; Mode is its mode. If Mode is zero, 0777.
	UID, GID, Mode uint32
}

// FS is a file system in memory. It is safe for concurrent use.
type FS struct {
	cfg  Config
	boot [8]byte // part of every handle, and the write and cookie verifier
	fsid uint64
	root *node

	mu    shared.RWMutex // guards names: nodes, next, and the fields that node names
	nodes map[uint64]*node
	next  uint64

	space shared.Mutex
	pages uint64 // allocated
}

var _ backend.FS = (*FS)(nil)

// New makes an empty file system. A nil cfg means the defaults.
func New(cfg *Config) *FS {
	f := &FS{nodes: make(map[uint64]*node), next: 1}
	if cfg != nil {
		f.cfg = *cfg
	}
	f.cfg.Capacity = cmp.Or(f.cfg.Capacity, defaultCapacity)
	f.cfg.MaxFiles = cmp.Or(f.cfg.MaxFiles, defaultMaxFiles)
	f.cfg.Mode = cmp.Or(f.cfg.Mode, 0o777)
	rand.Read(f.boot[:]) // never fails (crypto/rand)
	f.fsid = binary.BigEndian.Uint64(f.boot[:])
	f.root, _ = f.newNode(nfs3.TypeDir, &backend.Init{Attr: nfs3.SetAttr{UID: f.cfg.UID, GID: f.cfg.GID}}, f.cfg.Mode)
	f.root.parent = f.root
	f.root.attr.Nlink = 2
	return f
}

// Root returns the root directory.
func (f *FS) Root() backend.Node { return &file{node: f.root} }

// Resolve returns the file of a handle: 8 octets for this process, 8 for the file.
func (f *FS) Resolve(_ net.Addr, h []byte) (backend.Node, error) {
	if len(h) != 16 {
		return nil, nfs3.ErrBadHandle
	}
	if [8]byte(h) != f.boot {
		return nil, nfs3.ErrStale
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	n := f.nodes[binary.BigEndian.Uint64(h[8:])]
	if n == nil {
		return nil, nfs3.ErrStale
	}
	return &file{node: n}, nil
}

// Info returns the limits.
func (f *FS) Info() backend.Info {
	return backend.Info{
		MaxFileSize: 1<<63 - 1, LinkMax: 1 << 16, NameMax: nfs3.MaxName,
		AtomicWcc: true, Owners: true,
	}
}

// Usage returns the counts of octets and files.
func (f *FS) Usage() (backend.Usage, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	f.space.Lock()
	defer f.space.Unlock()
	files, used := uint64(len(f.nodes)), f.pages*pageSize
	free, slots := f.cfg.Capacity-min(used, f.cfg.Capacity), f.cfg.MaxFiles-min(files, f.cfg.MaxFiles)
	return backend.Usage{
		TotalBytes: f.cfg.Capacity, FreeBytes: free, AvailBytes: free,
		TotalFiles: f.cfg.MaxFiles, FreeFiles: slots, AvailFiles: slots,
	}, nil
}

// Close drops everything.
func (f *FS) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.nodes)
	return nil
}

// newNode makes a file that has no name yet. The caller holds f.mu, or is New.
func (f *FS) newNode(t nfs3.FileType, in *backend.Init, mode uint32) (*node, error) {
	if uint64(len(f.nodes)) >= f.cfg.MaxFiles {
		return nil, nfs3.ErrNoSpc
	}
	now := nfs3.TimeOf(time.Now())
	n := &node{fs: f, attr: nfs3.Attr{
		Type: t, Mode: mode, Nlink: 1, UID: in.Attr.UID, GID: in.Attr.GID, FSID: f.fsid, FileID: f.next,
		Atime: now, Mtime: now, Ctime: now,
	}}
	if in.Attr.SetMode {
		n.attr.Mode = in.Attr.Mode & 0o7777
	}
	if t == nfs3.TypeDir {
		n.attr.Nlink, n.attr.Size, n.names = 2, dirSize, make(map[string]*entry)
	}
	if in.Verf != nil {
		v := *in.Verf
		n.verf = &v
	}
	setTimes(&n.attr, &in.Attr, now)
	f.nodes[f.next] = n
	f.next++
	return n, nil
}

// Ready reports true: nothing waits for a disk.
func (f *FS) Ready(*caller.Identity, []byte) bool { return true }
