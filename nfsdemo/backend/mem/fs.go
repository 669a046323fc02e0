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

// pageSize is the unit of allocation in octets.
const pageSize = 16 << 10

// take reserves k pages.
func (f *FS) take(k int) error {
	f.space.Lock()
	defer f.space.Unlock()
	if (f.pages+uint64(k))*pageSize > f.cfg.Capacity {
		return nfs3.ErrNoSpc
	}
	f.pages += uint64(k)
	return nil
}

// give returns k pages.
func (f *FS) give(k int) {
	f.space.Lock()
	defer f.space.Unlock()
	f.pages -= uint64(k)
}

// Read copies octets out.
func (n *file) Read(p []byte, off uint64) (int, error) {
	if n.attr.Type != nfs3.TypeReg {
		return 0, nfs3.ErrInval
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	if !n.mayRead(&n.attr) {
		return 0, nfs3.ErrAcces
	}
	if n.attr.Nlink == 0 {
		return 0, nfs3.ErrStale
	}
	if off >= n.attr.Size {
		return 0, nil
	}
	p = p[:min(uint64(len(p)), n.attr.Size-off)]
	for done := 0; done < len(p); {
		at := (off + uint64(done)) % pageSize
		part := p[done:min(len(p), done+int(pageSize-at))]
		if page := n.pages[(off+uint64(done))/pageSize]; page != nil {
			copy(part, page[at:])
		} else {
			clear(part) // a hole
		}
		done += len(part)
	}
	return len(p), nil
}

// Write copies octets in.
func (n *file) Write(p []byte, off uint64, how nfs3.StableHow) (backend.WriteResult, error) {
	res := backend.WriteResult{Committed: nfs3.FileSync, Verf: n.fs.boot}
	if n.attr.Type != nfs3.TypeReg {
		return res, nfs3.ErrInval
	}
	end := off + uint64(len(p))
	if end < off || end > 1<<63-1 {
		return res, nfs3.ErrFBig
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.attr.Nlink == 0 {
		return res, nfs3.ErrStale
	}
	if !n.mayWrite(&n.attr) {
		return res, nfs3.ErrAcces
	}
	if len(p) == 0 {
		return res, nil
	}
	if err := n.alloc(off, end); err != nil { // all pages first: a write that does not fit changes nothing
		return res, err
	}
	for done := 0; done < len(p); {
		at := (off + uint64(done)) % pageSize
		done += copy(n.pages[(off+uint64(done))/pageSize][at:], p[done:])
	}
	n.attr.Size = max(n.attr.Size, end)
	n.attr.Mtime = nfs3.TimeOf(time.Now())
	n.attr.Ctime = n.attr.Mtime
	n.verf = nil
	n.dropSetID()
	res.N = len(p)
	return res, nil
}

// room returns the error of a Write for which there are not enough pages now.
func (n *node) room(off uint64, size int) error {
	n.mu.RLock()
	defer n.mu.RUnlock()
	missing := n.missing(off/pageSize, (off+uint64(size)-1)/pageSize)
	err := n.fs.take(missing)
	if err == nil {
		n.fs.give(missing)
	}
	return err
}

// missing counts the pages that a file does not have yet. The caller holds n.mu.
func (n *node) missing(first, last uint64) (missing int) {
	for i := first; i <= last; i++ {
		if n.pages[i] == nil {
			missing++
		}
	}
	return missing
}

// alloc allocates all pages of [off, end), or none. The caller holds n.mu.
func (n *node) alloc(off, end uint64) error {
	first, last := off/pageSize, (end-1)/pageSize
	missing := n.missing(first, last)
	if err := n.fs.take(missing); err != nil {
		return err
	}
	if n.pages == nil {
		n.pages = make(map[uint64][]byte)
	}
	for i := first; i <= last; i++ {
		if n.pages[i] == nil {
			n.pages[i] = make([]byte, pageSize)
		}
	}
	n.attr.Used += uint64(missing) * pageSize
	return nil
}

// truncate sets the size. The caller holds n.mu.
func (n *node) truncate(size uint64) error {
	switch {
	case n.attr.Type == nfs3.TypeDir:
		return nfs3.ErrIsDir
	case n.attr.Type != nfs3.TypeReg:
		return nfs3.ErrInval
	case size > 1<<63-1:
		return nfs3.ErrFBig
	}
	if size < n.attr.Size {
		n.cut(size)
	}
	n.attr.Size = size
	return nil
}

// cut drops the pages beyond size and clears the rest of the last one, so that a file reads as
// zeros there if it grows again. The caller holds n.mu.
func (n *node) cut(size uint64) {
	keep := (size + pageSize - 1) / pageSize
	freed := 0
	for i := range n.pages {
		if i >= keep {
			delete(n.pages, i)
			freed++
		}
	}
	if page := n.pages[size/pageSize]; page != nil {
		clear(page[size%pageSize:])
	}
	n.attr.Used -= uint64(freed) * pageSize
	n.fs.give(freed)
}

// Commit has nothing to do: every Write is stable.
func (n *file) Commit(uint64, uint32) (nfs3.WriteVerf, error) {
	if n.attr.Type != nfs3.TypeReg {
		return n.fs.boot, nfs3.ErrInval
	}
	a, err := n.Attr()
	if err == nil && !n.mayWrite(&a) && !n.mayRead(&a) {
		err = nfs3.ErrAcces
	}
	return n.fs.boot, err
}
