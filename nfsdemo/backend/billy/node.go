package billy

import (
	"container/list"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/go-git/go-billy/v5"
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/internal/caller"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// node is a file that a client has seen, or a name that a call is for. FS.mu guards it, but for fs and id; parent and
// name do not change while the node is in use.
type node struct {
	fs *FS
	id uint64

	parent *node // nil: the root
	name   string
	kids   map[string]*node
	place  *list.Element // in FS.used

	users   int  // calls that go on for it, or for files below it
	lists   int  // of these, those that read its names
	changes bool // one changes its names
	wanted  int  // calls that wait to move what has the name
	taken   bool // by one of them
	there   bool // when go-billy was asked last

	atime, ctime time.Time        // as far as they are known to differ from the time of the data
	mtime        time.Time        // of the data, if the file system does not know it
	verf         *nfs3.CreateVerf // of an exclusive CREATE, until attributes are set
}

var _ backend.Node = (*node)(nil)

// adopt puts n into a directory.
func (n *node) adopt(kid *node) {
	if n.kids == nil {
		n.kids = make(map[string]*node)
	}
	kid.parent = n
	n.kids[kid.name] = kid
}

// path returns the path in the go-billy file system.
func (n *node) path() string {
	if n.parent == nil {
		return "." // some file systems take "/" for that of the host
	}
	var names []string
	for ; n.parent != nil; n = n.parent {
		names = append(names, n.name)
	}
	slices.Reverse(names)
	return n.fs.under.Join(names...)
}

// info is what go-billy says about a file.
type info struct {
	fs.FileInfo
	asked time.Time
}

// stat asks go-billy. The file is in use. One that has vanished is forgotten when nobody uses it any more.
func (n *node) stat() (*info, error) {
	asked, stat := time.Now(), n.fs.under.Lstat
	if n.parent == nil { // some file systems have no link information for their root
		stat = n.fs.under.Stat
	}
	i, err := stat(n.path())
	gone := errors.Is(err, fs.ErrNotExist) && n.parent != nil
	n.fs.mu.Lock()
	defer n.fs.mu.Unlock()
	n.there = err == nil || n.there && !gone
	switch {
	case gone:
		return nil, nfs3.ErrStale
	case err != nil:
		return nil, status(err)
	}
	return &info{i, asked}, nil
}

// As returns n: everybody has the rights of this process.
func (n *node) As(*caller.Identity) backend.Node { return n }

// AppendHandle appends 16 octets.
func (n *node) AppendHandle(b []byte) []byte {
	return binary.BigEndian.AppendUint64(append(b, n.fs.boot[:]...), n.id)
}

// Attr returns the attributes.
func (n *node) Attr() (nfs3.Attr, error) {
	u := &use{n: n}
	if err := n.fs.begin(u); err != nil {
		return nfs3.Attr{}, err
	}
	defer n.fs.end(u)
	i, err := n.stat()
	if err != nil {
		return nfs3.Attr{}, err
	}
	return n.attr(i), nil
}

// attr makes attributes of what go-billy says.
func (n *node) attr(info *info) nfs3.Attr {
	own := n.fs.Info()
	mode, size, mtime := info.Mode(), info.Size(), info.ModTime() // asked without the lock: they are go-billy's
	n.fs.mu.Lock()
	defer n.fs.mu.Unlock()
	if !mtime.Before(info.asked) { // the file system makes it up, like memfs, or a client has set it
		if n.mtime.IsZero() {
			n.mtime = info.asked
		}
		mtime = n.mtime
	}
	a := nfs3.Attr{
		Type: typeOf(mode), Mode: modeOf(mode), Nlink: 1, UID: own.UID, GID: own.GID,
		Size: uint64(max(size, 0)), FSID: binary.BigEndian.Uint64(n.fs.boot[:]), FileID: n.id,
		Mtime: nfs3.TimeOf(mtime), Atime: nfs3.TimeOf(mtime), Ctime: nfs3.TimeOf(mtime),
	}
	a.Used = a.Size
	if a.Type == nfs3.TypeDir {
		a.Nlink = 2
	}
	if !n.atime.IsZero() {
		a.Atime = nfs3.TimeOf(n.atime)
	}
	if n.ctime.After(mtime) {
		a.Ctime = nfs3.TimeOf(n.ctime)
	}
	return a
}

// typeOf and modeOf convert what io/fs says.
func typeOf(m fs.FileMode) nfs3.FileType {
	switch {
	case m.IsRegular():
		return nfs3.TypeReg
	case m.IsDir():
		return nfs3.TypeDir
	case m&fs.ModeSymlink != 0:
		return nfs3.TypeLnk
	case m&fs.ModeNamedPipe != 0:
		return nfs3.TypeFIFO
	case m&fs.ModeSocket != 0:
		return nfs3.TypeSock
	case m&fs.ModeCharDevice != 0:
		return nfs3.TypeChr
	}
	return nfs3.TypeBlk
}

// special are the mode bits that io/fs keeps elsewhere.
var special = []struct {
	bit  uint32
	flag fs.FileMode
}{{0o4000, fs.ModeSetuid}, {0o2000, fs.ModeSetgid}, {0o1000, fs.ModeSticky}}

func modeOf(m fs.FileMode) uint32 {
	mode := uint32(m.Perm())
	for _, s := range special {
		if m&s.flag != 0 {
			mode |= s.bit
		}
	}
	return mode
}

func fileMode(mode uint32) fs.FileMode {
	m := fs.FileMode(mode & 0o777)
	for _, s := range special {
		if mode&s.bit != 0 {
			m |= s.flag
		}
	}
	return m
}

// SetAttr changes attributes.
func (n *node) SetAttr(a *nfs3.SetAttr) error {
	u := &use{n: n}
	if err := n.fs.begin(u); err != nil {
		return err
	}
	defer n.fs.end(u)
	info, err := n.stat()
	switch {
	case err != nil:
		return err
	case n.fs.ro:
		return nfs3.ErrROFS
	}
	n.note(func() { n.verf = nil })
	if a.SetSize {
		if err := n.truncate(info.Mode(), a.Size); err != nil {
			return err
		}
	}
	if err := n.setMeta(info, a); err != nil {
		return err
	}
	n.note(func() { n.ctime = info.asked })
	return nil
}

// note changes what is known about files, which takes no time.
func (n *node) note(change func()) {
	n.fs.mu.Lock()
	defer n.fs.mu.Unlock()
	change()
}

// setMeta changes all but the size. What is as it should be needs no billy.Change.
func (n *node) setMeta(info *info, a *nfs3.SetAttr) error {
	p, now := n.path(), n.attr(info)
	link := now.Type == nfs3.TypeLnk // Chmod and Chtimes would follow it
	if a.SetUID && a.UID != now.UID || a.SetGID && a.GID != now.GID {
		return nfs3.ErrPerm // see Info.Owners
	}
	if a.SetMode && a.Mode&0o7777 != now.Mode && !link {
		if n.fs.change == nil {
			return nfs3.ErrNotSupp
		}
		if err := n.fs.change.Chmod(p, fileMode(a.Mode)); err != nil {
			return status(err)
		}
	}
	return n.setTimes(p, info, a, link)
}

// setTimes changes the times.
func (n *node) setTimes(p string, info *info, a *nfs3.SetAttr, link bool) error {
	if a.AtimeHow == nfs3.DontChange && a.MtimeHow == nfs3.DontChange {
		return nil
	}
	now, mtime := info.asked, info.ModTime()
	pick := func(how nfs3.TimeHow, given nfs3.Time, old time.Time) time.Time {
		switch how {
		case nfs3.ClientTime:
			return given.Time()
		case nfs3.ServerTime:
			return now
		case nfs3.DontChange:
		}
		return old
	}
	var atime time.Time
	n.note(func() { atime = pick(a.AtimeHow, a.Atime, n.atime) })
	if a.MtimeHow == nfs3.DontChange {
		n.note(func() { n.atime = atime })
		return nil
	}
	if link {
		return nfs3.ErrNotSupp
	}
	mtime = pick(a.MtimeHow, a.Mtime, mtime)
	if n.fs.change == nil && a.MtimeHow == nfs3.ClientTime {
		return nfs3.ErrNotSupp
	}
	if n.fs.change != nil {
		at := atime
		if at.IsZero() {
			at = mtime
		}
		if err := n.fs.change.Chtimes(p, at, mtime); err != nil {
			return status(err)
		}
	}
	n.note(func() { n.atime, n.mtime = atime, mtime })
	return nil
}

// Access returns what everybody may do.
func (n *node) Access(want nfs3.Access) (nfs3.Access, error) {
	a, err := n.Attr()
	if err != nil {
		return 0, err
	}
	got := nfs3.AccessRead
	if a.Type == nfs3.TypeDir {
		got |= nfs3.AccessLookup
	} else if a.Mode&0o111 != 0 {
		got |= nfs3.AccessExecute
	}
	if !n.fs.ro {
		got |= nfs3.AccessModify | nfs3.AccessExtend
		if a.Type == nfs3.TypeDir {
			got |= nfs3.AccessDelete
		}
	}
	return got & want, nil
}

// Open returns the error of Read or Write.
func (n *node) Open(write bool, _ uint64, _ int) error {
	u := &use{n: n}
	if err := n.fs.begin(u); err != nil {
		return err
	}
	defer n.fs.end(u)
	_, err := n.regular()
	if err == nil && write && n.fs.ro {
		err = nfs3.ErrROFS
	}
	return err
}

// regular returns what go-billy says about a regular file, and ErrInval for others. The file is in use.
func (n *node) regular() (*info, error) {
	info, err := n.stat()
	if err == nil && !info.Mode().IsRegular() {
		err = nfs3.ErrInval
	}
	return info, err
}

// ReadLink returns the target of a symbolic link.
func (n *node) ReadLink() (string, error) {
	u := &use{n: n}
	if err := n.fs.begin(u); err != nil {
		return "", err
	}
	defer n.fs.end(u)
	info, err := n.stat()
	if err != nil {
		return "", err
	}
	if info.Mode().Type() != fs.ModeSymlink {
		return "", nfs3.ErrInval
	}
	target, err := n.fs.under.Readlink(n.path())
	return target, status(err)
}

// Read reads a regular file.
func (n *node) Read(p []byte, off uint64) (int, error) {
	u := &use{n: n}
	if err := n.fs.begin(u); err != nil {
		return 0, err
	}
	defer n.fs.end(u)
	info, err := n.regular()
	if err != nil {
		return 0, err
	}
	if off >= uint64(max(info.Size(), 0)) || len(p) == 0 {
		return 0, nil
	}
	file, err := n.fs.under.Open(n.path())
	if err != nil {
		return 0, status(err)
	}
	defer file.Close()
	got, err := file.ReadAt(p, int64(off))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return got, status(err)
}

// Write writes a regular file.
func (n *node) Write(p []byte, off uint64, how nfs3.StableHow) (backend.WriteResult, error) {
	res := backend.WriteResult{Committed: how, Verf: n.fs.boot}
	u := &use{n: n}
	if err := n.fs.begin(u); err != nil {
		return res, err
	}
	defer n.fs.end(u)
	end := off + uint64(len(p))
	_, err := n.regular()
	switch {
	case err != nil:
		return res, err
	case n.fs.ro:
		return res, nfs3.ErrROFS
	case end < off || end > n.fs.cfg.MaxFileSize && len(p) > 0 || end > 1<<63-1:
		return res, nfs3.ErrFBig
	case len(p) == 0:
		return res, nil
	}
	n.note(func() { n.verf = nil })
	res.N, err = n.change(func(file billy.File) (int, error) {
		done, err := writeAt(file, p, int64(off))
		if err == nil && how != nfs3.Unstable {
			err = flush(file)
		}
		return done, err
	})
	return res, err
}

// change opens the file to be written.
func (n *node) change(f func(billy.File) (int, error)) (int, error) {
	file, err := n.fs.under.OpenFile(n.path(), os.O_RDWR, 0)
	if err != nil {
		return 0, status(err)
	}
	now := time.Now()
	n.note(func() { n.mtime = now })
	done, err := f(file)
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	return done, status(err)
}

// writeAt writes p at off, which may be behind the end.
func writeAt(file billy.File, p []byte, off int64) (int, error) {
	if w, ok := file.(io.WriterAt); ok {
		return w.WriteAt(p, off)
	}
	if _, err := file.Seek(off, io.SeekStart); err != nil {
		return 0, err
	}
	return file.Write(p)
}

// flush makes a file durable, if it can.
func flush(file billy.File) error {
	if s, ok := file.(interface{ Sync() error }); ok {
		return s.Sync()
	}
	return nil
}

// truncate sets the size. The file is in use.
func (n *node) truncate(mode fs.FileMode, size uint64) error {
	switch {
	case mode.IsDir():
		return nfs3.ErrIsDir
	case !mode.IsRegular():
		return nfs3.ErrInval
	case size > n.fs.cfg.MaxFileSize || size > 1<<63-1:
		return nfs3.ErrFBig
	}
	_, err := n.change(func(file billy.File) (int, error) {
		if err := file.Truncate(int64(size)); err != nil {
			return 0, err
		}
		return 0, flush(file)
	})
	return err
}

// Commit makes the data durable.
func (n *node) Commit(uint64, uint32) (nfs3.WriteVerf, error) {
	u := &use{n: n}
	if err := n.fs.begin(u); err != nil {
		return n.fs.boot, err
	}
	defer n.fs.end(u)
	if _, err := n.regular(); err != nil || n.fs.ro {
		return n.fs.boot, err
	}
	file, err := n.fs.under.OpenFile(n.path(), os.O_RDWR, 0)
	if err != nil {
		return n.fs.boot, status(err)
	}
	return n.fs.boot, status(errors.Join(flush(file), file.Close()))
}
