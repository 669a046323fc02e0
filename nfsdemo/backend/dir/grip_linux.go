package dir

import (
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"golang.org/x/sys/unix"
)

// grip is a file of any kind, held by a descriptor that grants nothing (O_PATH). What a caller does with the
// file starts from there: names by the *at system calls, the file itself by its name in /proc.
type grip struct {
	fd   int
	node *node

	inside atomic.Int64 // when the directory was last seen in the export, ns since 1970

	mu   sync.Mutex
	file *os.File // of a directory, to sync it; nil: not yet needed
}

// Close closes the descriptors.
func (g *grip) Close() error {
	err := unix.Close(g.fd)
	if g.file != nil {
		err = errors.Join(err, g.file.Close())
	}
	return err
}

// gripRef is a grip in use.
type gripRef struct {
	*grip
	slot *slot[key, *grip] // nil for the root
}

// done ends the use.
func (r gripRef) done() {
	if r.slot != nil {
		r.node.fs.grips.put(r.slot)
	}
}

const gripFlags = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC

// hold takes hold of n, ErrStale if it is gone. It runs as this process, whose rights do not matter to the
// caller: who has a handle needs no right to the directories above.
func (n *node) hold() (gripRef, error) { return n.holdBy(mayFind) }

func (n *node) holdBy(find bool) (gripRef, error) {
	f := n.fs
	if n == f.root {
		return gripRef{grip: f.top}, nil
	}
	if s := f.grips.get(n.key); s != nil {
		return gripRef{s.v, s}, nil
	}
	if n.key.kind != kindOwn {
		return f.fetch(&n.key)
	}
	var ref gripRef
	err := n.at(find, func(d gripRef, name string, _ *stat) error {
		fd, err := openat(d.fd, name, gripFlags, 0)
		if err != nil {
			return status(err)
		}
		st, err := f.identify(fd)
		if err == nil && st.key != n.key {
			err = errMoved // it was replaced since we looked
		}
		if err != nil {
			unix.Close(fd)
			return err
		}
		s := f.grips.add(n.key, &grip{fd: fd, node: n}, false)
		ref = gripRef{s.v, s}
		return nil
	})
	return ref, err
}

// fetch opens the file of one of the file system's own handles.
func (f *FS) fetch(k *key) (gripRef, error) {
	fd, err := openHandle(f.sys.mount, k)
	if err != nil {
		return gripRef{}, err
	}
	st, err := f.statFD(fd)
	if err == nil && st.attr.Nlink == 0 {
		err = nfs3.ErrStale
	}
	if err != nil {
		unix.Close(fd)
		return gripRef{}, err
	}
	st.key = *k
	s := f.grips.add(*k, &grip{fd: fd, node: f.newNode(&st)}, false)
	return gripRef{s.v, s}, nil
}

// resolve finds the file of an identity.
func (f *FS) resolve(from net.Addr, k key) (*node, error) {
	switch {
	case k == f.root.key:
		return f.root, nil
	case (k.kind != kindOwn) != f.sys.handled:
		return nil, nfs3.ErrStale // the other kind of handle was in use before a restart
	case k.kind == kindOwn:
		return f.remembered(from, k)
	}
	if s := f.grips.get(k); s != nil {
		defer f.grips.put(s)
		return s.v.node, nil
	}
	g, err := f.fetch(&k)
	if err != nil {
		return nil, err
	}
	defer g.done()
	return g.node, nil
}

// open is hold for a directory that is in the export: ErrNotDir, ErrStale.
func (n *node) open() (gripRef, error) {
	if n.typ != nfs3.TypeDir {
		return gripRef{}, nfs3.ErrNotDir
	}
	g, err := n.hold()
	if err != nil {
		return g, err
	}
	if err := n.fs.confine(g.grip); err != nil {
		g.done()
		return gripRef{}, err
	}
	return g, nil
}

// openPlace is open for the search.
func (n *node) openPlace(find bool) (gripRef, error) {
	if n.typ != nfs3.TypeDir {
		return gripRef{}, nfs3.ErrNotDir
	}
	return n.holdBy(find)
}

// insideFor is how long a directory that was seen in the export is believed to be there.
const insideFor = time.Second

// confine returns ErrStale for a directory that somebody has moved out of the export. In the private copy of
// the mount, ".." of such a directory does not exist, at whatever depth it is. Files need no such check:
// they have no "..", and who was given the handle of one had a name for it.
func (f *FS) confine(g *grip) error {
	if g.node == f.root || g.node.key.kind == kindOwn {
		return nil // a place in the table is in the export
	}
	now := time.Now().UnixNano()
	if now-g.inside.Load() < int64(insideFor) {
		return nil
	}
	if f.sys.private {
		var st unix.Stat_t
		if err := unix.Fstatat(g.fd, "..", &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return nfs3.ErrStale
		}
	} else if in, err := f.below(g.fd); err != nil || !in {
		return nfs3.ErrStale
	}
	g.inside.Store(now)
	return nil
}

// below reports whether the path of an open directory is that of the export or below it.
func (f *FS) below(fd int) (bool, error) {
	top, err := os.Readlink(procName(f.top.fd))
	if err != nil {
		return false, err
	}
	p, err := os.Readlink(procName(fd))
	if errors.Is(err, unix.ENAMETOOLONG) {
		return f.climb(fd)
	}
	return p == top || strings.HasPrefix(p, strings.TrimSuffix(top, "/")+"/"), err
}

// climb is below for a directory that is too deep for a path.
func (f *FS) climb(fd int) (bool, error) {
	var top, last, st unix.Stat_t
	if err := unix.Fstat(f.top.fd, &top); err != nil {
		return false, err
	}
	at, err := openat(fd, ".", gripFlags, 0)
	for err == nil {
		if err = unix.Fstat(at, &st); err != nil {
			unix.Close(at)
			return false, err
		}
		if same := st.Dev == top.Dev && st.Ino == top.Ino; same || st.Dev == last.Dev && st.Ino == last.Ino {
			unix.Close(at)
			return same, nil // ".." of the top of all is itself
		}
		last = st
		var up int
		up, err = openat(at, "..", gripFlags, 0)
		unix.Close(at)
		at = up
	}
	return false, err
}

// above returns the directory that a directory is in; for the root, the root itself.
func (f *FS) above(n *node, g gripRef) (*node, error) {
	if n == f.root {
		return n, nil
	}
	if n.key.kind == kindOwn {
		// Check that it is still where it was, to notice a move by somebody else.
		if err := n.at(mayFind, func(gripRef, string, *stat) error { return nil }); err != nil {
			return nil, err
		}
		return f.tab.parentOf(n), nil
	}
	fd, err := openat(g.fd, "..", gripFlags, 0)
	if err != nil {
		return nil, nfs3.ErrStale
	}
	up, _, err := f.adopt(fd)
	if err != nil || up == f.root {
		return up, err
	}
	ref, err := up.open() // looks whether it is in the export
	if err == nil {
		ref.done()
	}
	return up, err
}

// look looks at a name in d; it runs as a caller. Links are not followed.
func (f *FS) look(d gripRef, name string) (*node, stat, error) {
	if !f.sys.handled {
		st, err := f.statAt(d, name)
		if err != nil {
			return nil, st, err
		}
		return f.tab.enter(f, place{d.node, name}, &st), st, nil
	}
	var st stat
	var mount int32
	if err := handleAt(d.fd, name, 0, &st.key, &mount); err == nil && mount == f.sys.mountID {
		if s := f.grips.get(st.key); s != nil {
			defer f.grips.put(s)
			n := s.v.node
			st, err := f.statFD(s.v.fd)
			st.key = n.key
			return n, st, err
		}
	}
	fd, err := openat(d.fd, name, gripFlags, 0)
	if err != nil {
		return nil, st, status(err)
	}
	return f.adopt(fd)
}

// adopt takes a descriptor of a file in the export, and returns the node of the file.
func (f *FS) adopt(fd int) (*node, stat, error) {
	st, err := f.identify(fd)
	switch {
	case err != nil:
		unix.Close(fd)
		return nil, st, err
	case st.key == f.root.key:
		unix.Close(fd)
		return f.root, st, nil
	}
	s := f.grips.add(st.key, &grip{fd: fd, node: f.newNode(&st)}, false)
	defer f.grips.put(s)
	return s.v.node, st, nil
}

// identify is statFD with the identity.
func (f *FS) identify(fd int) (stat, error) {
	st, err := f.statFD(fd)
	if err != nil || !f.sys.handled {
		return st, err
	}
	var mount int32
	if err := handleAt(fd, "", unix.AT_EMPTY_PATH, &st.key, &mount); err != nil {
		return st, status(err)
	}
	if mount != f.sys.mountID {
		return st, nfs3.ErrAcces // another file system is mounted here: it is not exported
	}
	return st, nil
}

// fileHandle is struct file_handle of Linux.
type fileHandle struct {
	n    uint32
	kind int32
	id   [maxID]byte
}

// handleAt reads the file system's own handle of a file, and on which mount it is.
func handleAt(fd int, name string, flags int, k *key, mount *int32) error {
	var h fileHandle
	if err := handleOf(fd, name, flags, &h, mount); err != nil {
		return err
	}
	own, ok := newKey(h.kind, h.id[:min(h.n, maxID)])
	if !ok {
		return unix.EOPNOTSUPP
	}
	*k = own
	return nil
}

func handleOf(fd int, name string, flags int, h *fileHandle, mount *int32) error {
	h.n = maxID
	p, err := unix.BytePtrFromString(name)
	if err != nil {
		return err
	}
	_, _, e := unix.Syscall6(unix.SYS_NAME_TO_HANDLE_AT, uintptr(fd), uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(h)), uintptr(unsafe.Pointer(mount)), uintptr(flags), 0)
	if e != 0 {
		return e
	}
	return nil
}

// openHandle opens the file of a handle with O_PATH. It needs CAP_DAC_READ_SEARCH.
func openHandle(mount int, k *key) (int, error) {
	h := fileHandle{n: uint32(k.n), kind: int32(k.kind), id: k.id}
	for {
		fd, _, e := unix.Syscall(unix.SYS_OPEN_BY_HANDLE_AT, uintptr(mount), uintptr(unsafe.Pointer(&h)), gripFlags)
		switch e {
		case 0:
			return int(fd), nil
		case unix.EINTR:
		case unix.EMFILE, unix.ENFILE:
			if !giveWay() {
				return -1, status(e)
			}
		case unix.ESTALE, unix.EINVAL, unix.ENOENT:
			return -1, nfs3.ErrStale
		default:
			return -1, status(e)
		}
	}
}

// openat repeats what a signal has interrupted, or the want of a descriptor that a cache can give up.
func openat(fd int, name string, flags int, mode uint32) (int, error) {
	for {
		got, err := unix.Openat(fd, name, flags, mode)
		switch {
		case err == unix.EINTR:
		case (err == unix.EMFILE || err == unix.ENFILE) && giveWay():
		default:
			return got, err
		}
	}
}

// stat looks at the file.
func (g *grip) stat() (stat, error) {
	st, err := g.node.fs.statFD(g.fd)
	st.key = g.node.key
	return st, err
}

// descriptor is what a watch begins with.
func (g *grip) descriptor() int { return g.fd }

// access asks the kernel for rights to the file.
func (g *grip) access(right uint32) error { return accessFD(g.fd, right) }

// accessFile is access for an open file.
func accessFile(f *os.File, right uint32) error { return accessFD(int(f.Fd()), right) }

// accessFD calls faccessat2 (Linux 5.8), which unlike older calls goes by the ids that the file system sees.
// The function of package unix decides by itself when the kernel says EPERM.
func accessFD(fd int, right uint32) error {
	var empty byte
	_, _, e := unix.Syscall6(unix.SYS_FACCESSAT2, uintptr(fd), uintptr(unsafe.Pointer(&empty)), uintptr(right), unix.AT_EMPTY_PATH|unix.AT_EACCESS, 0, 0)
	if e != 0 {
		return status(e)
	}
	return nil
}

// openFile opens the file itself, to be read or to be written. An open does not wait for the other end of
// a pipe.
func (g *grip) openFile(write bool) (*os.File, error) {
	flag := unix.O_RDONLY
	if write {
		flag = unix.O_WRONLY
	}
	name := procName(g.fd)
	fd, err := openat(unix.AT_FDCWD, name, flag|unix.O_NONBLOCK|unix.O_LARGEFILE|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// syncFile returns the directory, opened as this process, to be synced.
func (g *grip) syncFile() (*os.File, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.file != nil {
		return g.file, nil
	}
	file, err := g.openFile(false)
	if err == nil {
		g.file = file
	}
	return file, err
}

// set changes attributes, except the size.
func (g *grip) set(a *nfs3.SetAttr) error { return setFD(g.fd, g.node.typ == nfs3.TypeLnk, a) }

// readLink returns the target of a symbolic link.
func (g *grip) readLink() (string, error) {
	buf := make([]byte, nfs3.MaxPath)
	n, err := unix.Readlinkat(g.fd, "", buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// The calls below take a directory and one component; the kernel follows no link in the last
// component of any of them.

// modeAtOnce says that the calls that make files give them their modes, of which the umask of the process and
// a default ACL take their part.
const modeAtOnce = true

func unlinkAt(d gripRef, name string) error { return unix.Unlinkat(d.fd, name, 0) }

func rmdirAt(d gripRef, name string) error { return unix.Unlinkat(d.fd, name, unix.AT_REMOVEDIR) }

func symlinkAt(d gripRef, target, name string) error { return unix.Symlinkat(target, d.fd, name) }

func mkdirAt(d gripRef, name string, mode uint32) error { return unix.Mkdirat(d.fd, name, mode) }

// createAt makes a regular file, and opens it to be written.
func createAt(d gripRef, name string, mode uint32) (*os.File, error) {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_LARGEFILE | unix.O_CLOEXEC
	fd, err := openat(d.fd, name, flags, mode)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func mknodAt(d gripRef, name string, t nfs3.FileType, mode uint32, dev nfs3.Device) error {
	number := 0
	switch t {
	case nfs3.TypeFIFO:
		mode |= unix.S_IFIFO
	case nfs3.TypeSock:
		mode |= unix.S_IFSOCK
	case nfs3.TypeChr, nfs3.TypeBlk:
		mode |= unix.S_IFCHR
		if t == nfs3.TypeBlk {
			mode = mode&^unix.S_IFMT | unix.S_IFBLK
		}
		number = int(unix.Mkdev(dev.Major, dev.Minor))
	default:
		return nfs3.ErrBadType
	}
	return unix.Mknodat(d.fd, name, mode, number)
}

func (f *FS) renameAt(src gripRef, from string, dst gripRef, name string, _ *stat) error {
	return unix.Renameat(src.fd, from, dst.fd, name)
}

func (f *FS) linkAt(g, to gripRef, name string) error {
	return unix.Linkat(unix.AT_FDCWD, procName(g.fd), to.fd, name, unix.AT_SYMLINK_FOLLOW)
}
