package dir

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// idleFile is how long an unused file stays open. It is short because local processes cannot
// run a program that is open for writing.
const idleFile = 3 * time.Second

// FS is a directory being served. It is safe for concurrent use.
type FS struct {
	cfg    Config
	root   *node
	top    *openDir // the root, open until Close
	owners bool     // this process may give files away
	sys    sysFS

	ns    sync.Mutex // held while names are moved or removed: system call and table together
	tab   table
	dirs  cache[*openDir]
	files cache[*openFile]
	lost  searcher

	verf    atomic.Uint64
	syncErr func(syncOp) error // set by tests: runs instead of the sync
}

var _ backend.FS = (*FS)(nil)

// New serves the directory path. It fails if the directory cannot be opened.
func New(path string, cfg *Config) (*FS, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	f := &FS{cfg: cfg.fill(), owners: isRoot()}
	f.tab = table{max: f.cfg.MaxNodes, m: make(map[key]*node)}
	f.dirs = cache[*openDir]{max: f.cfg.MaxDirs}
	f.files = cache[*openFile]{max: f.cfg.MaxFiles, ttl: idleFile}
	f.lost.fs = f
	f.top, err = newOpenDir(root)
	if err != nil {
		return nil, err
	}
	if err := f.begin(path); err != nil {
		_ = f.top.Close()
		return nil, err
	}
	return f, nil
}

// begin reads the identity of the root and draws the first verifier.
func (f *FS) begin(path string) error {
	if err := f.sys.init(f.top.f, path); err != nil {
		return err
	}
	st, err := f.statOpen(f.top.f, key{})
	if err != nil {
		return err
	}
	f.root = &node{fs: f, key: st.key, typ: nfs3.TypeDir}
	f.tab.m[st.key] = f.root
	f.top.node = f.root
	f.newVerf()
	return nil
}

// Root returns the directory itself.
func (f *FS) Root() backend.Node { return f.root }

// Resolve returns the file of a handle; it searches for the file if it must.
func (f *FS) Resolve(h []byte) (backend.Node, error) {
	k, err := parseHandle(h)
	if err != nil {
		return nil, err
	}
	if n := f.tab.get(k); n != nil {
		return n, nil
	}
	if err := f.lost.find(k); err != nil {
		return nil, err
	}
	if n := f.tab.get(k); n != nil {
		return n, nil
	}
	return nil, nfs3.ErrStale
}

var _ backend.Readier = (*FS)(nil)

// Ready implements backend.Readier: the file is open to be written. The kernel then has its attributes
// in memory.
func (f *FS) Ready(h []byte) bool {
	k, err := parseHandle(h)
	if err != nil || f.tab.get(k) == nil {
		return false
	}
	s := f.files.get(k)
	if s == nil {
		return false
	}
	defer f.files.put(s)
	return s.v.write
}

// Info returns the limits of Linux. A file system may have smaller ones, which show only when
// they are reached.
func (f *FS) Info() backend.Info {
	return backend.Info{
		MaxFileSize: 1<<63 - 1, LinkMax: 65000, NameMax: nfs3.MaxName,
		AtomicWcc: f.cfg.Exclusive, MayBlock: true,
		Owners: f.owners, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()),
	}
}

// Usage returns the counts of the file system that holds the root.
func (f *FS) Usage() (backend.Usage, error) {
	u, err := usage(f.top.f)
	return u, status(err)
}

// Close syncs and closes what is open.
func (f *FS) Close() error {
	f.files.clear()
	f.dirs.clear()
	return errors.Join(f.top.Close())
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
