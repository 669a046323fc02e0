package dir

import (
	"cmp"
	"container/list"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stag-rdma/stag/internal/quick"
	"github.com/stag-rdma/stag/internal/setting"
	"github.com/stag-rdma/stag/internal/shared"
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/internal/caller"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// Defaults of [Config].
const (
	defaultMaxNodes    = 1 << 18
	defaultMaxFiles    = 256
	defaultMaxHeld     = 1024
	defaultSearchLimit = 1 << 20
)

// Config says how a directory is served. New copies it; nil means the defaults. A setting out of range is an
// error that wraps rpc.ErrConfig.
type Config struct {
	// Async omits the fsync after changes of names and attributes: a crash of the machine
	// may undo them. WRITE and COMMIT are not affected.
	Async bool
	// Key seals handles, so that clients can use only those that they were given. Handles
	// survive a restart if the key does, so keep it, where only this process can read it. It
	// has 32 octets or more. If empty, New draws one.
	Key []byte
	// FSID is the administrator's word on which file system this is: handles last as long as it stays the same. If
	// empty, the UUID of the file system tells it from others at the same path. One without a UUID, or whose file numbers
	// are used again without a trace (FUSE, squashfs), counts as another one each time it is mounted: its handles
	// are stale then.
	FSID string
	// Mountpoint, if not empty, is a path where something must be mounted: New and FS.Check fail if nothing is, so that
	// no files go below the mount point of a disk that is away. Linux only.
	Mountpoint string
	// MaxFiles limits the number of files kept open for READ and WRITE, one descriptor for
	// each caller and direction. If zero, 256, at most an eighth of what the process may open.
	MaxFiles int
	// MaxHeld limits the number of files and directories of which a descriptor without
	// rights is kept. If zero, 1024, at most a quarter of what the process may open.
	MaxHeld int
	// MaxNodes limits the number of files whose place is remembered, about 200 octets each,
	// where the file system has no handles of its own. If zero, 262,144.
	MaxNodes int
	// SearchLimit limits the number of names that one search for files in unknown places
	// looks at, where the file system has no handles of its own. If zero,
	// 1,048,576; if negative, there is no search.
	SearchLimit int

	places bool // set by tests: no handles of the file system
}

// fill returns a checked copy of c with the defaults in place.
func (c *Config) fill() (Config, error) {
	var out Config
	if c != nil {
		out = *c
	}
	err := setting.Check(
		setting.Count("MaxFiles", out.MaxFiles), setting.Count("MaxHeld", out.MaxHeld), setting.Count("MaxNodes", out.MaxNodes),
	)
	if n := len(out.Key); err == nil && n > 0 && n < keySize {
		err = setting.Error("Key has %d octets, want %d or more, or none for a key that is drawn", n, keySize)
	}
	if err != nil {
		return out, fmt.Errorf("dir: %w", err)
	}
	out.MaxNodes = cmp.Or(out.MaxNodes, defaultMaxNodes)
	// The rest is for connections and other directories. When it does not suffice, the caches give way.
	most := MaxDescriptors()
	out.MaxFiles = cmp.Or(out.MaxFiles, min(defaultMaxFiles, max(most/8, 1)))
	out.MaxHeld = cmp.Or(out.MaxHeld, min(defaultMaxHeld, max(most/4, 1)))
	out.SearchLimit = cmp.Or(out.SearchLimit, defaultSearchLimit)
	return out, nil
}

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
		MayBlock: true, Owners: f.sw != nil, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()),
		// No AtomicWcc: others may change the directory.
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

// byErrno maps system errors to statuses; all others are NFS3ERR_IO.
var byErrno = map[syscall.Errno]nfs3.Status{
	syscall.EPERM:        nfs3.ErrPerm,
	syscall.ENOENT:       nfs3.ErrNoEnt,
	syscall.EIO:          nfs3.ErrIO,
	syscall.ENXIO:        nfs3.ErrNXIO,
	syscall.EACCES:       nfs3.ErrAcces,
	syscall.EEXIST:       nfs3.ErrExist,
	syscall.EXDEV:        nfs3.ErrXDev,
	syscall.ENODEV:       nfs3.ErrNoDev,
	syscall.ENOTDIR:      nfs3.ErrNotDir,
	syscall.EISDIR:       nfs3.ErrIsDir,
	syscall.EINVAL:       nfs3.ErrInval,
	syscall.EFBIG:        nfs3.ErrFBig,
	syscall.ENOSPC:       nfs3.ErrNoSpc,
	syscall.EROFS:        nfs3.ErrROFS,
	syscall.EMLINK:       nfs3.ErrMLink,
	syscall.ENAMETOOLONG: nfs3.ErrNameTooLong,
	syscall.ENOTEMPTY:    nfs3.ErrNotEmpty,
	syscall.EDQUOT:       nfs3.ErrDQuot,
	syscall.ESTALE:       nfs3.ErrStale,
	syscall.EOPNOTSUPP:   nfs3.ErrNotSupp,
	syscall.ENOSYS:       nfs3.ErrNotSupp,
	syscall.ETXTBSY:      nfs3.ErrAcces, // a running program cannot be written
	syscall.ELOOP:        nfs3.ErrInval, // a symbolic link, which we never follow
	syscall.EBUSY:        nfs3.ErrAcces, // a mount point: trying again does not help

	// Shortages that pass.
	syscall.EMFILE: nfs3.ErrJukebox,
	syscall.ENFILE: nfs3.ErrJukebox,
	syscall.ENOMEM: nfs3.ErrJukebox,
	syscall.EAGAIN: nfs3.ErrJukebox,
	syscall.EINTR:  nfs3.ErrJukebox,
}

// status turns a system error into an nfs3.Status. It returns other errors, and those of this
// package, unchanged.
func status(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrClosed): // the server is shutting down
		return nfs3.ErrJukebox
	}
	if s, ok := errors.AsType[nfs3.Status](err); ok {
		return s
	}
	if en, ok := errors.AsType[syscall.Errno](err); ok {
		if s, ok := byErrno[en]; ok {
			return s
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nfs3.ErrNoEnt
	case errors.Is(err, fs.ErrExist):
		return nfs3.ErrExist
	case errors.Is(err, fs.ErrPermission):
		return nfs3.ErrAcces
	}
	return err
}

// Limits of what is remembered of the kernel's answers.
const (
	maxRights = 4096
	rightsFor = time.Second // for what leaves no trace in the ctime, as a change of a security policy
)

// rightsCache remembers what rights the kernel has given callers to files. An answer counts while mode, owner and
// ctime of the file are as they were then: the switch to a caller costs more than a LOOKUP. It is safe for concurrent
// use.
type rightsCache struct {
	mu    sync.Mutex
	m     map[fileKey]*list.Element // of *answer
	order list.List                 // most recent first
}

// answer is what the kernel has said about a file to a caller.
type answer struct {
	key        fileKey
	who        caller.Identity
	proof      proof
	until      time.Time
	asked, got uint32
}

// get returns the rights that were asked for and given, for a file with these attributes.
func (c *rightsCache) get(k fileKey, who *caller.Identity, a *nfs3.Attr) (asked, got uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.m[k]
	if e == nil {
		return 0, 0
	}
	x := e.Value.(*answer)
	if x.proof != (proof{mode: a.Mode, uid: a.UID, gid: a.GID, ctime: a.Ctime}) || !x.who.Equal(who) || time.Now().After(x.until) {
		return 0, 0
	}
	return x.asked, x.got
}

// put notes an answer about a file that had these attributes before it was given.
func (c *rightsCache) put(k fileKey, who *caller.Identity, a *nfs3.Attr, asked, got uint32) {
	if recent(a.Ctime) {
		return
	}
	p := proof{mode: a.Mode, uid: a.UID, gid: a.GID, ctime: a.Ctime}
	own := *who
	own.Groups = append([]uint32(nil), who.Groups...)
	x := &answer{k, own, p, time.Now().Add(rightsFor), asked, got}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		c.m = make(map[fileKey]*list.Element)
	}
	if e := c.m[k]; e != nil {
		e.Value = x
		c.order.MoveToFront(e)
		return
	}
	c.m[k] = c.order.PushFront(x)
	if e := c.order.Back(); len(c.m) > maxRights {
		delete(c.m, e.Value.(*answer).key)
		c.order.Remove(e)
	}
}

// known reports whether the kernel has answered about want to the caller, and what.
func (n *file) known(a *nfs3.Attr, want uint32) (got uint32, ok bool) {
	if n.who == nil || n.fs.sw == nil || n.who.UID == 0 {
		return 0, false // there is hardly a switch to be saved
	}
	asked, got := n.fs.rights.get(n.fs.fileKey(n.key, n.who, false), n.who, a)
	return got, asked&want == want
}

// learn notes what the kernel has answered.
func (n *file) learn(a *nfs3.Attr, asked, got uint32) {
	if n.who != nil && n.fs.sw != nil && n.who.UID != 0 {
		n.fs.rights.put(n.fs.fileKey(n.key, n.who, false), n.who, a, asked, got)
	}
}

// Descriptors are of the process: connections need them too, and the caches of all its directories share what is left.
var served struct {
	mu  shared.Mutex
	all []*FS
}

// serve makes the caches of f give way to whoever has no descriptor left, or ends that.
func (f *FS) serve(on bool) {
	served.mu.Lock()
	defer served.mu.Unlock()
	if on {
		served.all = append(served.all, f)
	} else {
		served.all = slices.DeleteFunc(served.all, func(g *FS) bool { return g == f })
	}
}

// giveWay closes half of what the caches hold and nobody uses, and reports whether that is anything.
func giveWay() bool {
	var all []*FS
	served.mu.With(func() { all = slices.Clone(served.all) })
	n := 0
	for _, f := range all {
		n += f.files.giveWay() + f.grips.giveWay()
	}
	return n > 0
}
