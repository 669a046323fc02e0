//go:build !linux

package dir

import (
	"errors"
	"hash/fnv"
	"io"
	"io/fs"
	"math"
	"net"
	"os"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// grip is an open directory: root for what os.Root can do, f for system calls on a descriptor. For another
// kind of file it is a name in one.
type grip struct {
	node *node
	root *os.Root
	f    *os.File

	dir  *grip // of a file that is no directory
	name string
}

// newGrip takes root.
func newGrip(root *os.Root, n *node) (*grip, error) {
	f, err := root.Open(".")
	if err != nil {
		_ = root.Close()
		return nil, err
	}
	return &grip{node: n, root: root, f: f}, nil
}

// descriptor is for watches, which are not here.
func (*grip) descriptor() int { return -1 }

// Close closes both descriptors.
func (g *grip) Close() error {
	err := g.f.Close()
	if rerr := g.root.Close(); err == nil {
		err = rerr
	}
	return err
}

// gripRef is a grip in use.
type gripRef struct {
	*grip
	slot *slot[key, *grip] // of the directory; nil for the root
}

// done ends the use.
func (r gripRef) done() {
	if r.slot != nil {
		r.node.fs.grips.put(r.slot)
	}
}

func (n *node) hold() (gripRef, error) { return n.holdBy(mayFind) }

func (n *node) holdBy(find bool) (gripRef, error) {
	f := n.fs
	if n == f.root {
		return gripRef{grip: f.top}, nil
	}
	if n.typ == nfs3.TypeDir {
		if s := f.grips.get(n.key); s != nil {
			return gripRef{s.v, s}, nil
		}
	}
	var ref gripRef
	err := n.at(find, func(d gripRef, name string, _ *stat) error {
		if n.typ != nfs3.TypeDir {
			up, err := d.node.holdBy(find)
			ref = gripRef{&grip{node: n, dir: up.grip, name: name}, up.slot}
			return err
		}
		root, err := d.root.OpenRoot(name)
		if err != nil {
			return status(err)
		}
		g, err := newGrip(root, n)
		if err != nil {
			return status(err)
		}
		s := f.grips.add(n.key, g, false)
		ref = gripRef{s.v, s}
		return nil
	})
	return ref, err
}

func (n *node) open() (gripRef, error) { return n.openPlace(mayFind) }

func (n *node) openPlace(find bool) (gripRef, error) {
	if n.typ != nfs3.TypeDir {
		return gripRef{}, nfs3.ErrNotDir
	}
	return n.holdBy(find)
}

// above returns the directory that a directory is in; for the root, the root itself.
func (f *FS) above(n *node, _ gripRef) (*node, error) {
	if n != f.root {
		if err := n.at(mayFind, func(gripRef, string, *stat) error { return nil }); err != nil {
			return nil, err
		}
	}
	return f.tab.parentOf(n), nil
}

// look looks at a name in d.
func (f *FS) look(d gripRef, name string) (*node, stat, error) {
	st, err := f.statAt(d, name)
	if err != nil {
		return nil, st, err
	}
	return f.tab.enter(f, place{d.node, name}, &st), st, nil
}

// resolve finds the file of an identity.
func (f *FS) resolve(from net.Addr, k key) (*node, error) { return f.remembered(from, k) }

func (g *grip) stat() (stat, error) {
	if g.dir != nil {
		return g.node.fs.statAt(gripRef{grip: g.dir}, g.name)
	}
	fi, err := g.f.Stat()
	if err != nil {
		return stat{}, status(err)
	}
	return statOf(fi, g.node.key), nil
}

// access knows nothing: the system decides when the file is used.
func (g *grip) access(uint32) error { return nil }

func accessFile(*os.File, uint32) error { return nil }

func (g *grip) openFile(write bool) (*os.File, error) {
	if g.dir == nil {
		return g.root.Open(".")
	}
	flag := os.O_RDONLY
	if write {
		flag = os.O_WRONLY
	}
	return g.dir.root.OpenFile(g.name, flag, 0)
}

func (g *grip) syncFile() (*os.File, error) { return g.f, nil }

func (g *grip) readLink() (string, error) { return g.dir.root.Readlink(g.name) }

// set changes attributes, except the size and the owner.
func (g *grip) set(a *nfs3.SetAttr) error {
	if g.node.typ == nfs3.TypeLnk { // the calls below follow it
		return nfs3.ErrNotSupp
	}
	root, name := g.root, "."
	if g.dir != nil {
		root, name = g.dir.root, g.name
	}
	if a.SetMode {
		if err := root.Chmod(name, os.FileMode(a.Mode&0o777)); err != nil {
			return err
		}
	}
	if a.AtimeHow == nfs3.DontChange && a.MtimeHow == nfs3.DontChange {
		return nil
	}
	pick := func(how nfs3.TimeHow, t nfs3.Time) time.Time {
		switch how {
		case nfs3.ServerTime:
			return time.Now()
		case nfs3.ClientTime:
			return t.Time()
		case nfs3.DontChange:
		}
		return time.Time{} // leaves the time unchanged
	}
	return root.Chtimes(name, pick(a.AtimeHow, a.Atime), pick(a.MtimeHow, a.Mtime))
}

// sysFS makes identities where the system has no portable ones: hashes of paths. A renamed file
// keeps the identity that it had before.
type sysFS struct {
	mu    sync.Mutex
	moved map[string]uint64
}

// begin opens the root.
func (f *FS) begin(path string) error {
	if f.cfg.Mountpoint != "" {
		return errors.New("dir: Mountpoint is for Linux")
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return err
	}
	f.seal = newSealer(f.cfg.Key, path, []byte(f.cfg.FSID))
	f.limit = 1<<63 - 1
	f.top, err = newGrip(root, f.root)
	f.root.key = f.keyAt(gripRef{grip: f.top}, "")
	return err
}

// handles says what handles are, for a log.
func (s *sysFS) handles(bool) string { return "handles are made of paths" }

func (s *sysFS) close() error { return nil }

// Check returns nil while the directory that is served stands at its path.
func (f *FS) Check() error {
	f.open.Lock()
	defer f.open.Unlock()
	if f.closed {
		return os.ErrClosed
	}
	now, err := os.Stat(f.path)
	if err != nil {
		return err
	}
	own, err := f.top.f.Stat()
	if err == nil && !os.SameFile(now, own) {
		err = errors.New("another directory stands there now")
	}
	return err
}

// Mountpoint is not known here.
func (f *FS) Mountpoint() string { return "" }

// usage is unknown here.
func (f *FS) usage() (backend.Usage, error) {
	const much = 1 << 40
	return backend.Usage{
		TotalBytes: much, FreeBytes: much, AvailBytes: much,
		TotalFiles: much, FreeFiles: much, AvailFiles: much,
	}, nil
}

// modeAtOnce: the mode is set when the file is there.
const modeAtOnce = false

func unlinkAt(d gripRef, name string) error { return d.root.Remove(name) }

func rmdirAt(d gripRef, name string) error { return d.root.Remove(name) }

func symlinkAt(d gripRef, target, name string) error { return d.root.Symlink(target, name) }

func mkdirAt(d gripRef, name string, _ uint32) error { return d.root.Mkdir(name, 0o700) }

func createAt(d gripRef, name string, _ uint32) (*os.File, error) {
	return d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

func mknodAt(gripRef, string, nfs3.FileType, uint32, nfs3.Device) error { return nfs3.ErrNotSupp }

func (f *FS) renameAt(src gripRef, from string, dst gripRef, name string, st *stat) error {
	a, b := f.pathAt(src, from), f.pathAt(dst, name)
	if err := f.top.root.Rename(a, b); err != nil {
		return err
	}
	f.sys.mu.Lock()
	defer f.sys.mu.Unlock()
	if f.sys.moved == nil {
		f.sys.moved = make(map[string]uint64)
	}
	delete(f.sys.moved, a)
	f.sys.moved[b] = st.key.ino()
	return nil
}

func (f *FS) linkAt(g, to gripRef, name string) error {
	return f.top.root.Link(f.pathAt(gripRef{grip: g.dir}, g.name), f.pathAt(to, name))
}

// list reads the whole directory and sorts it by the hashes of the names. The hashes are the
// cookies, so these stay valid while names come and go. Names with the same hash share a
// cookie; a list that stops between them continues after both.
func (f *FS) list(d gripRef, cookie uint64, fn func(*rawEntry) bool) (eof bool, taken int, err error) {
	file, err := d.root.Open(".")
	if err != nil {
		return false, 0, status(err)
	}
	defer file.Close()
	infos, err := file.ReadDir(-1)
	if err != nil && err != io.EOF {
		return false, 0, status(err)
	}
	all := []rawEntry{{name: ".", cookie: 1, maybeDir: true}, {name: "..", cookie: 2, maybeDir: true}}
	for _, e := range infos {
		k := f.keyAt(d, e.Name())
		all = append(all, rawEntry{name: e.Name(), ino: k.ino(), cookie: hashName(e.Name()), maybeDir: e.IsDir()})
	}
	slices.SortFunc(all, func(a, b rawEntry) int {
		switch {
		case a.cookie < b.cookie:
			return -1
		case a.cookie > b.cookie:
			return 1
		}
		return 0
	})
	for i := range all {
		if all[i].cookie <= cookie {
			continue
		}
		if !fn(&all[i]) {
			return false, taken, nil
		}
		taken++
	}
	return true, taken, nil
}

// hashName returns the FNV-1a hash of a name; never 0 or the cookies of "." and "..".
func hashName(name string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return h>>1 | 4
}

// pathOf returns the path of n below the export.
func (f *FS) pathOf(n *node) string {
	var names []string
	for n != f.root {
		p := f.tab.placesOf(n)
		if len(p) == 0 {
			break
		}
		names = append(names, p[0].name)
		n = p[0].dir
	}
	slices.Reverse(names)
	return path.Join(names...)
}

func (f *FS) pathAt(d gripRef, name string) string { return path.Join(f.pathOf(d.node), name) }

// keyAt returns the identity of a name.
func (f *FS) keyAt(d gripRef, name string) key {
	p := f.pathAt(d, name)
	f.sys.mu.Lock()
	defer f.sys.mu.Unlock()
	if id, ok := f.sys.moved[p]; ok {
		return ownKey(0, id, 0)
	}
	h := fnv.New64a()
	h.Write([]byte(p))
	return ownKey(0, h.Sum64(), 0)
}

func (f *FS) statAt(d gripRef, name string) (stat, error) {
	fi, err := d.root.Lstat(name)
	if err != nil {
		return stat{}, status(err)
	}
	return statOf(fi, f.keyAt(d, name)), nil
}

// statFile looks at an open file.
func (f *FS) statFile(file *os.File) (stat, error) {
	fi, err := file.Stat()
	if err != nil {
		return stat{}, status(err)
	}
	return statOf(fi, key{}), nil
}

func statOf(fi fs.FileInfo, k key) stat {
	t := nfs3.TimeOf(fi.ModTime())
	a := nfs3.Attr{
		Type: nfs3.TypeReg, Mode: uint32(fi.Mode().Perm()), Nlink: 1, Size: uint64(fi.Size()), Used: uint64(fi.Size()),
		FSID: 1, FileID: k.ino(), Atime: t, Mtime: t, Ctime: t,
	}
	switch m := fi.Mode(); {
	case m.IsDir():
		a.Type, a.Nlink = nfs3.TypeDir, 2
	case m&fs.ModeSymlink != 0:
		a.Type = nfs3.TypeLnk
	case m&fs.ModeNamedPipe != 0:
		a.Type = nfs3.TypeFIFO
	case m&fs.ModeSocket != 0:
		a.Type = nfs3.TypeSock
	case m&fs.ModeCharDevice != 0:
		a.Type = nfs3.TypeChr
	case m&fs.ModeDevice != 0:
		a.Type = nfs3.TypeBlk
	}
	return stat{key: k, attr: a}
}

func datasync(f *os.File) error { return f.Sync() }

// MaxDescriptors returns how many files and connections the process may have open; here it is not known.
func MaxDescriptors() int { return math.MaxInt }

// watcher would hear of changes of files. Here there is none.
type watcher struct{}

type watched struct{}

func (*watcher) close() error { return nil }

func (*watcher) add(*inode, int) {}

func (*watcher) remove(*inode) {}

func (*watcher) changes(*inode) (uint64, bool) { return 0, false }
