package dir

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/internal/quick"
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/internal/caller"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// Idle times. A file that is open for writing cannot be run by local processes, and one that is held has its
// space kept after its last name is gone.
const (
	idleFile = 3 * time.Second
	idleGrip = 5 * time.Second
)

// FS is a directory being served. It is safe for concurrent use.
type FS struct {
	cfg   Config
	path  string
	kept  bool // handles outlive this process: the key does
	root  *node
	top   *grip            // the root, until Close
	sw    *caller.Switcher // nil: everybody is the user of this process
	alone error            // why
	seal  *sealer
	sys   sysFS
	limit uint64 // the longest file

	open   sync.Mutex // held by Check and Close
	closed bool

	quick     quick.Files
	noReserve bool // the file system keeps no blocks for root or another uid

	ns     sync.Mutex // held while names are moved or removed: system call and table together
	tab    table
	grips  cache[key, *grip]
	files  cache[fileKey, *openFile]
	share  shares
	rights rightsCache
	lost   searcher

	verf    atomic.Uint64
	syncErr func(syncOp) error // set by tests: runs instead of the sync
}

var _ backend.FS = (*FS)(nil)

// New serves the directory path. It fails if the directory cannot be opened, or cfg is out of range.
func New(path string, cfg *Config) (*FS, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	f := &FS{path: path}
	if f.cfg, err = cfg.fill(); err != nil {
		return nil, err
	}
	if f.sw, f.alone = caller.New(); f.alone != nil && !errors.Is(f.alone, caller.ErrCannot) {
		return nil, f.alone
	}
	f.tab = table{max: f.cfg.MaxNodes, m: make(map[key]*node)}
	f.grips = cache[key, *grip]{max: f.cfg.MaxHeld, ttl: idleGrip}
	f.files = cache[fileKey, *openFile]{max: f.cfg.MaxFiles, ttl: idleFile}
	f.lost.fs = f
	if f.kept = len(f.cfg.Key) > 0; !f.kept {
		f.cfg.Key = make([]byte, keySize)
		rand.Read(f.cfg.Key) // never fails (crypto/rand)
	}
	f.root = &node{fs: f, typ: nfs3.TypeDir}
	if err := f.begin(path); err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	f.tab.m[f.root.key] = f.root
	f.newVerf()
	f.serve(true)
	return f, nil
}

// Root returns the directory itself.
func (f *FS) Root() backend.Node { return &file{node: f.root} }

// Resolve returns the file of a handle; it searches for the file if it must.
func (f *FS) Resolve(from net.Addr, h []byte) (backend.Node, error) {
	k, err := f.seal.parse(h)
	if err != nil {
		return nil, err
	}
	n, err := f.resolve(from, k)
	if err != nil {
		return nil, err
	}
	return &file{node: n}, nil
}

// remembered is resolve by the table and the search.
func (f *FS) remembered(from net.Addr, k key) (*node, error) {
	if n := f.tab.get(k); n != nil && n.inPlace() {
		return n, nil
	}
	if err := f.lost.find(from, k); err != nil {
		return nil, err
	}
	if n := f.tab.get(k); n != nil {
		return n, nil
	}
	return nil, nfs3.ErrJukebox // forgotten again
}

// Ready reports whether the file is open to be written by this caller. The kernel then has its
// attributes in memory.
func (f *FS) Ready(who *caller.Identity, h []byte) bool {
	k, err := f.seal.parse(h)
	if err != nil {
		return false
	}
	s := f.files.get(f.fileKey(k, who, true))
	if s == nil {
		return false
	}
	f.files.put(s)
	return true
}

// Info returns the limits of Linux, and the length of the longest file.
func (f *FS) Info() backend.Info {
	return backend.Info{
		MaxFileSize: f.limit, LinkMax: 65000, NameMax: nfs3.MaxName,
		AtomicWcc: f.cfg.Exclusive, MayBlock: true,
		Owners: f.sw != nil, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()),
	}
}

// Authority says, for a log, who decides what callers may do, and what the handles are.
func (f *FS) Authority() string {
	who := "the kernel decides as for the caller"
	if f.sw == nil {
		who = fmt.Sprintf("every caller is uid %d, the user of this process (%v)", os.Geteuid(), f.alone)
	}
	return who + "; " + f.sys.handles(f.kept)
}

// Usage returns the counts of the file system that holds the root.
func (f *FS) Usage() (backend.Usage, error) {
	u, err := f.usage()
	return u, status(err)
}

// Close syncs and closes what is open.
func (f *FS) Close() error {
	f.open.Lock()
	defer f.open.Unlock()
	if f.closed {
		return os.ErrClosed
	}
	f.closed = true
	f.serve(false)
	f.files.clear()
	f.grips.clear()
	var err error
	if f.top != nil {
		err = f.top.Close()
	}
	return errors.Join(err, f.sys.close(), f.share.watch.close())
}

// writeVerf returns the current write verifier.
func (f *FS) writeVerf() (v nfs3.WriteVerf) {
	binary.BigEndian.PutUint64(v[:], f.verf.Load())
	return v
}

// newVerf changes the write verifier: unsynced data may have been lost.
func (f *FS) newVerf() {
	var b [8]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	f.verf.Store(binary.BigEndian.Uint64(b[:]))
}
