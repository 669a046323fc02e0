package juicefs

import (
	"errors"
	"strings"
	"syscall"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// check checks a name that is not looked up; dots is the error for "." and "..".
func (n *file) check(name string, dots nfs3.Status) error {
	if n.typ != nfs3.TypeDir {
		return nfs3.ErrNotDir
	}
	if err := backend.CheckName(name); err != nil {
		return err
	}
	if backend.IsDots(name) {
		return dots
	}
	if n.ino == meta.RootInode && name == meta.TrashName {
		return nfs3.ErrAcces // removed files of everybody
	}
	return nil
}

// missing tells a name that does not exist from a directory that is gone.
func (n *file) missing(st syscall.Errno) error {
	if st == syscall.ENOENT {
		if _, err := n.stat(); err != nil {
			return err
		}
	}
	return status(st)
}

// Lookup finds a name.
func (n *file) Lookup(name string) (backend.Node, nfs3.Attr, error) {
	if err := n.check(name, 0); err != nil && !backend.IsDots(name) || n.typ != nfs3.TypeDir {
		return nil, nfs3.Attr{}, err
	}
	d, err := n.stat()
	if err == nil {
		err = n.may(&d, meta.MODE_MASK_X)
	}
	if err != nil {
		return nil, nfs3.Attr{}, err
	}
	c, a, err := n.find(name, &d)
	if err != nil {
		return nil, nfs3.Attr{}, err
	}
	return c, n.fs.attr(c.ino, &a), nil
}

// find finds a name in the directory, whose attributes are d, without a check.
func (n *file) find(name string, d *meta.Attr) (*file, meta.Attr, error) {
	switch {
	case name == "." || name == ".." && n.ino == n.fs.root:
		return n, *d, nil
	case name == "..":
		p := n.at(d.Parent, meta.TypeDirectory)
		a, err := p.stat()
		return p, a, err
	}
	var ino meta.Ino
	var a meta.Attr
	if st := n.fs.v.m.Lookup(n.fs.v.ctx, n.ino, name, &ino, &a, false); st != 0 {
		return nil, a, status(st)
	}
	return n.at(ino, a.Typ), a, nil
}

// making is what make makes.
type making struct {
	typ    uint8
	mode   uint32 // if nobody says
	rdev   uint32
	target string
}

// make makes a file. JuiceFS gives it owner, group and mode in one transaction; the rest follows.
func (n *file) make(name string, in *backend.Init, m making) (backend.Node, nfs3.Attr, error) {
	if err := n.check(name, nfs3.ErrExist); err != nil {
		return nil, nfs3.Attr{}, err
	}
	if in.Attr.SetSize && in.Attr.Size > maxFile {
		return nil, nfs3.Attr{}, nfs3.ErrFBig
	}
	if in.Attr.SetMode && m.typ != meta.TypeSymlink {
		m.mode = in.Attr.Mode
	}
	if in.Call != nil && !isDevice(m.typ) {
		m.rdev = mark(*in.Call)
	}
	var ino meta.Ino
	a := meta.Attr{Rdev: m.rdev} // Mknod takes the argument for files and devices only
	if st := n.fs.v.m.Mknod(n.ctx(), n.ino, name, m.typ, uint16(m.mode&0o7777), 0, m.rdev, m.target, &ino, &a); st == syscall.EEXIST {
		return n.again(name, in)
	} else if st != 0 {
		return nil, nfs3.Attr{}, gone(st)
	}
	c := n.at(ino, m.typ)
	changed, err := c.dress(in, &a)
	if errors.Is(err, nfs3.ErrStale) { // the call has run: somebody has removed the file since
		return c, n.fs.attr(ino, &a), nil
	}
	if err != nil {
		_ = n.unmake(name, m.typ) // the first error counts
		return nil, nfs3.Attr{}, err
	}
	if changed {
		if now, err := c.stat(); err == nil {
			a = now
		} else if !errors.Is(err, nfs3.ErrStale) {
			return nil, nfs3.Attr{}, err
		}
	}
	return c, n.fs.attr(ino, &a), nil
}

// dress gives a new file what it does not have yet, and reports whether that was anything.
func (n *file) dress(in *backend.Init, a *meta.Attr) (bool, error) {
	set := in.Attr
	set.SetSize, set.SetMode = false, false
	set.SetUID = set.SetUID && set.UID != a.Uid && n.root()
	set.SetGID = set.SetGID && set.GID != a.Gid && n.in(set.GID)
	if in.Verf != nil {
		set.AtimeHow, set.MtimeHow = nfs3.ClientTime, nfs3.ClientTime
		set.Atime, set.Mtime = verfTimes(*in.Verf)
	}
	if set.SetUID || set.SetGID { // this clears set-id bits
		set.SetMode = n.typ != nfs3.TypeLnk && a.Mode&(modeSetUID|modeSetGID) != 0
		set.Mode = uint32(a.Mode)
	}
	size := in.Attr.SetSize && in.Attr.Size > 0 && n.typ == nfs3.TypeReg
	if size {
		if err := n.truncate(in.Attr.Size); err != nil {
			return false, err
		}
	}
	return size || !set.IsZero(), n.set(&set)
}

// unmake removes a file that could not be finished.
func (n *file) unmake(name string, typ uint8) error {
	if typ == meta.TypeDirectory {
		return status(n.fs.v.m.Rmdir(n.fs.v.ctx, n.ino, name, true))
	}
	return status(n.fs.v.m.Unlink(n.fs.v.ctx, n.ino, name, true))
}

// Create makes a file; only root makes devices.
func (n *file) Create(name string, in *backend.Init) (backend.Node, nfs3.Attr, error) {
	m := making{mode: 0o600}
	switch in.Type {
	case 0, nfs3.TypeReg:
		m.typ = meta.TypeFile
	case nfs3.TypeDir:
		m.typ, m.mode = meta.TypeDirectory, 0o700
	case nfs3.TypeLnk:
		switch {
		case in.Target == "" || strings.ContainsRune(in.Target, 0):
			return nil, nfs3.Attr{}, nfs3.ErrInval
		case len(in.Target) > meta.MaxSymlink:
			return nil, nfs3.Attr{}, nfs3.ErrNameTooLong
		}
		m.typ, m.mode, m.target = meta.TypeSymlink, 0o777, in.Target
	case nfs3.TypeFIFO:
		m.typ = meta.TypeFIFO
	case nfs3.TypeSock:
		m.typ = meta.TypeSocket
	case nfs3.TypeBlk, nfs3.TypeChr:
		m.typ = meta.TypeBlockDev
		if in.Type == nfs3.TypeChr {
			m.typ = meta.TypeCharDev
		}
		if !n.root() {
			return nil, nfs3.Attr{}, nfs3.ErrPerm
		}
		if in.Rdev.Major > 0xfff || in.Rdev.Minor > 0xfffff {
			return nil, nfs3.Attr{}, nfs3.ErrInval
		}
		m.rdev = in.Rdev.Minor&0xff | in.Rdev.Major<<8 | in.Rdev.Minor&^0xff<<12
	default:
		return nil, nfs3.Attr{}, nfs3.ErrBadType
	}
	return n.make(name, in, m)
}

// Remove removes a name.
func (n *file) Remove(name string, dir bool) error {
	if err := n.check(name, nfs3.ErrInval); err != nil {
		return err
	}
	if dir {
		return n.missing(n.fs.v.m.Rmdir(n.ctx(), n.ino, name))
	}
	st := n.fs.v.m.Unlink(n.ctx(), n.ino, name)
	if st == syscall.EPERM {
		if c, _, err := n.find(name, nil); err == nil && c.typ == nfs3.TypeDir {
			return nfs3.ErrIsDir
		}
	}
	return n.missing(st)
}

// Rename moves a name.
func (n *file) Rename(from string, to backend.Node, name string) error {
	d, ok := to.(*file)
	if !ok || d.fs.v != n.fs.v || d.fs.root != n.fs.root {
		return nfs3.ErrXDev
	}
	if err := n.check(from, nfs3.ErrInval); err != nil {
		return err
	}
	if err := d.check(name, nfs3.ErrInval); err != nil {
		return err
	}
	if n.ino != d.ino {
		if err := n.mayMove(from, d); err != nil {
			return err
		}
	}
	switch st := n.fs.v.m.Rename(n.ctx(), n.ino, from, d.ino, name, 0, nil, nil); st {
	case syscall.ENOTDIR, syscall.EISDIR:
		return nfs3.ErrExist
	case syscall.ENOENT:
		if _, err := d.stat(); err != nil {
			return err
		}
		return n.missing(st)
	default:
		return status(st)
	}
}

// mayMove checks what JuiceFS leaves to a kernel when a directory gets another parent: that this is not below it, and
// that the caller may change its "..".
func (n *file) mayMove(from string, to *file) error {
	d, err := n.stat()
	if err == nil {
		err = n.may(&d, meta.MODE_MASK_W|meta.MODE_MASK_X)
	}
	if err != nil {
		return err
	}
	c, a, err := n.find(from, &d)
	if err != nil {
		return err
	}
	if c.typ != nfs3.TypeDir {
		return nil
	}
	for at := to; at.ino != n.fs.root && at.ino != meta.RootInode; {
		if at.ino == c.ino {
			return nfs3.ErrInval
		}
		p, err := at.stat()
		if err != nil {
			return err
		}
		at = at.at(p.Parent, meta.TypeDirectory)
	}
	return c.may(&a, meta.MODE_MASK_W)
}

// Link gives a file one more name.
func (n *file) Link(to backend.Node, name string) error {
	f, ok := to.(*file)
	if !ok || f.fs.v != n.fs.v || f.fs.root != n.fs.root {
		return nfs3.ErrXDev
	}
	if err := n.check(name, nfs3.ErrExist); err != nil {
		return err
	}
	if f.typ == nfs3.TypeDir {
		return nfs3.ErrInval
	}
	if _, err := f.stat(); err != nil {
		return err
	}
	return n.missing(n.fs.v.m.Link(n.ctx(), f.ino, n.ino, name, nil))
}
