package dir

import (
	"encoding/binary"
	"errors"
	"os"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// Lookup finds a name. ".." of the root is the root.
func (n *file) Lookup(name string) (backend.Node, nfs3.Attr, error) {
	if err := backend.CheckName(name); err != nil {
		return nil, nfs3.Attr{}, err
	}
	g, err := n.open()
	if err != nil {
		return nil, nfs3.Attr{}, err
	}
	defer g.done()
	if name == ".." {
		return n.parent(g)
	}
	self, err := g.stat()
	if err != nil {
		return nil, nfs3.Attr{}, err
	}
	var (
		c  *node
		st stat
	)
	find := func() (err error) {
		if c, st = n.node, self; name != "." {
			c, st, err = n.fs.look(g, name)
			return err
		}
		return g.access(mayExec)
	}
	// A look at a name needs the right to search the directory, and no other.
	if got, ok := n.known(&self.attr, mayExec); ok && got&mayExec != 0 {
		err = find()
	} else if err = n.do(find); err == nil {
		n.learn(&self.attr, mayExec, mayExec)
	}
	if err != nil {
		return nil, nfs3.Attr{}, status(err)
	}
	return n.with(c), st.attr, nil
}

// parent is the Lookup of "..", which may need to find the directory first.
func (n *file) parent(g gripRef) (backend.Node, nfs3.Attr, error) {
	if err := n.do(func() error { return g.access(mayExec) }); err != nil {
		return nil, nfs3.Attr{}, status(err)
	}
	up, err := n.fs.above(n.node, g)
	if err != nil {
		return nil, nfs3.Attr{}, err
	}
	p := n.with(up)
	a, err := p.Attr()
	if err != nil {
		return nil, a, err
	}
	return p, a, nil
}

// toChange opens the directory n for a change of a name, which must not be "." or "..": then the error is dots.
func (n *file) toChange(name string, dots error) (g gripRef, err error) {
	if err := backend.CheckName(name); err != nil {
		return g, err
	}
	if backend.IsDots(name) {
		return g, dots
	}
	return n.open()
}

// making runs mk in the directory n as the caller, so that the kernel gives the file its owner, group, mode
// and ACL. It adds what system calls cannot give at once, and makes both durable.
func (n *file) making(name string, in *backend.Init, mk func(d gripRef) error) (backend.Node, nfs3.Attr, error) {
	d, err := n.toChange(name, nfs3.ErrExist)
	if err != nil {
		return nil, nfs3.Attr{}, err
	}
	defer d.done()
	var (
		c  *node
		st stat
	)
	err = n.do(func() error {
		if err := mk(d); err != nil {
			return err
		}
		var err error
		if c, st, err = n.fs.look(d, name); err != nil {
			return err
		}
		n.fs.lost.unbury(st.key)
		return nil
	})
	if err != nil {
		return nil, nfs3.Attr{}, status(err)
	}
	f := n.with(c)
	if err = f.dress(in, &st); err == nil {
		err = f.settleNew()
	}
	if err != nil {
		n.unmake(d, name, c)
		return nil, nfs3.Attr{}, err
	}
	return f, st.attr, n.fs.settle(d)
}

// settleNew makes a new file durable; what is no file or directory is so with the directory it is in.
func (n *node) settleNew() error {
	if n.typ != nfs3.TypeReg && n.typ != nfs3.TypeDir {
		return nil
	}
	return n.settleAttr()
}

// verfTimes stores a create verifier in two times, 31 bits in each number of seconds, so that
// it fits file systems with 32-bit signed seconds.
func verfTimes(v nfs3.CreateVerf) (atime, mtime nfs3.Time) {
	const mask = 1<<31 - 1
	return nfs3.Time{Sec: binary.BigEndian.Uint32(v[:4]) & mask},
		nfs3.Time{Sec: binary.BigEndian.Uint32(v[4:]) & mask}
}

// dress gives a new file what it does not have yet, and updates st.
func (n *file) dress(in *backend.Init, st *stat) error {
	set := n.rest(in, st)
	if set.IsZero() {
		return nil
	}
	g, err := n.hold()
	if err != nil {
		return err
	}
	defer g.done()
	err = n.do(func() error {
		if set.SetGID && !set.SetUID && !n.super() {
			// A group that the caller is not in is not given, as the kernel's own server does it.
			_ = g.set(&nfs3.SetAttr{SetGID: true, GID: set.GID})
			set.SetGID = false
		}
		if err := g.set(&set); err != nil {
			return err
		}
		now, err := g.stat()
		st.attr = now.attr
		return err
	})
	return status(err)
}

// rest returns the attributes that a new file does not have yet. Its mode is what the kernel has made of
// the one asked for, which a default ACL may have reduced: only bits that the system call does not take are
// added.
func (n *file) rest(in *backend.Init, st *stat) nfs3.SetAttr {
	set := in.Attr
	set.SetSize = false
	set.SetUID = set.SetUID && set.UID != st.attr.UID && n.super()
	set.SetGID = set.SetGID && set.GID != st.attr.GID && n.fs.sw != nil
	if in.Verf != nil {
		set.AtimeHow, set.MtimeHow = nfs3.ClientTime, nfs3.ClientTime
		set.Atime, set.Mtime = verfTimes(*in.Verf)
	}
	const special = 0o7000
	missing := set.Mode & special &^ st.attr.Mode
	switch {
	case st.attr.Type == nfs3.TypeLnk || !set.SetMode:
		set.SetMode = false // links have no mode
	case !modeAtOnce:
	case set.SetUID || set.SetGID: // they clear set-id bits
		set.SetMode = set.Mode&special != 0
		set.Mode = st.attr.Mode&^special | set.Mode&special
	default:
		set.SetMode = st.attr.Type == nfs3.TypeDir && missing != 0
		set.Mode = st.attr.Mode | missing
	}
	return set
}

// unmake removes a file that could not be finished.
func (n *file) unmake(d gripRef, name string, c *node) {
	f := n.fs
	f.ns.Lock()
	defer f.ns.Unlock()
	_ = n.do(func() error {
		if now, _, err := f.look(d, name); err != nil || now.key != c.key {
			return err
		}
		if c.typ == nfs3.TypeDir {
			return rmdirAt(d, name)
		}
		return unlinkAt(d, name)
	})
	f.gone(c.key)
}

// gone forgets a file that has no name anymore.
func (f *FS) gone(k key) {
	f.files.dropIf(func(fk fileKey, o *openFile) bool {
		if fk.key == k {
			o.dirty.Store(false) // nobody can read its octets again
		}
		return fk.key == k
	})
	f.grips.drop(k)
	f.lost.bury(k)
	f.tab.remove(k)
}

// Create makes a file. The descriptor of a regular one stays open for the writes that follow, so that it
// can be written even if its mode forbids opening it.
func (n *file) Create(name string, in *backend.Init) (backend.Node, nfs3.Attr, error) {
	mode := in.Attr.Mode & 0o7777
	switch in.Type {
	case 0, nfs3.TypeReg:
	case nfs3.TypeDir:
		return n.making(name, in, func(d gripRef) error { return mkdirAt(d, name, mode) })
	case nfs3.TypeLnk:
		return n.making(name, in, func(d gripRef) error { return symlinkAt(d, in.Target, name) })
	default:
		return n.making(name, in, func(d gripRef) error { return mknodAt(d, name, in.Type, mode, in.Rdev) })
	}
	if in.Attr.SetSize && in.Attr.Size > n.fs.limit {
		return nil, nfs3.Attr{}, nfs3.ErrFBig
	}
	var made *os.File
	c, a, err := n.making(name, in, func(d gripRef) (err error) {
		if made, err = createAt(d, name, mode); err != nil {
			return err
		}
		if in.Attr.SetSize && in.Attr.Size > 0 {
			if err = made.Truncate(int64(in.Attr.Size)); err != nil {
				_ = unlinkAt(d, name)
			}
		}
		return err
	})
	if made == nil && errors.Is(err, nfs3.ErrExist) && in.Verf != nil {
		// The file of an exclusive CREATE whose answer was lost has the times that such a file is given.
		if c, a, err := n.Lookup(name); err == nil && a.Type == nfs3.TypeReg && a.Size == 0 {
			if at, mt := verfTimes(*in.Verf); a.Atime == at && a.Mtime == mt {
				return c, a, nil
			}
		}
	}
	if made == nil {
		return nil, nfs3.Attr{}, err
	}
	if err != nil || c == nil {
		_ = made.Close() // nothing was written
		return nil, nfs3.Attr{}, err
	}
	k := c.(*file).key
	o := n.fs.newOpenFile(made, k, n.who, true, n.fs.share.enter(k, int(made.Fd())))
	n.fs.files.put(n.fs.files.add(n.fs.fileKey(k, n.who, true), o, true))
	return c, a, nil
}

// Remove looks up a name, removes it as the caller, and forgets the file.
func (n *file) Remove(name string, dir bool) error {
	rm := unlinkAt
	if dir {
		rm = rmdirAt
	}
	d, err := n.toChange(name, nfs3.ErrInval)
	if err != nil {
		return err
	}
	defer d.done()
	if err := n.unname(d, name, rm); err != nil {
		return err
	}
	return n.fs.settle(d)
}

func (n *file) unname(d gripRef, name string, rm func(d gripRef, name string) error) error {
	f := n.fs
	f.ns.Lock()
	defer f.ns.Unlock()
	var st stat
	err := n.do(func() (err error) {
		if _, st, err = f.look(d, name); err != nil {
			return err
		}
		return rm(d, name)
	})
	if err != nil {
		return status(err)
	}
	f.lose(place{n.node, name}, &st)
	return nil
}

// lose notes that a name is gone. The caller holds f.ns.
func (f *FS) lose(p place, st *stat) {
	if st.attr.Type == nfs3.TypeDir || st.attr.Nlink <= 1 {
		f.gone(st.key)
		return
	}
	if c := f.tab.get(st.key); c != nil {
		f.tab.leave(c, p)
	}
}

// Rename moves a name.
func (n *file) Rename(from string, to backend.Node, name string) error {
	t, ok := to.(*file)
	if !ok || t.fs != n.fs {
		return nfs3.ErrXDev
	}
	src, err := n.toChange(from, nfs3.ErrInval)
	if err != nil {
		return err
	}
	defer src.done()
	dst, err := t.toChange(name, nfs3.ErrInval)
	if err != nil {
		return err
	}
	defer dst.done()
	if err := n.move(src, from, dst, t.node, name); err != nil {
		return err
	}
	return n.fs.settle(dst, src)
}

// move renames as the caller, and updates the table. The kernel does nothing if both names are the same
// file, or one name.
func (n *file) move(src gripRef, from string, dst gripRef, to *node, name string) error {
	f := n.fs
	f.ns.Lock()
	defer f.ns.Unlock()
	var (
		c        *node
		st, old  stat
		replaces bool
	)
	err := n.do(func() (err error) {
		if c, st, err = f.look(src, from); err != nil {
			return err
		}
		_, old, err = f.look(dst, name)
		replaces = err == nil
		if err != nil && !errors.Is(status(err), nfs3.ErrNoEnt) {
			return err
		}
		err = f.renameAt(src, from, dst, name, &st)
		if s := status(err); replaces && (errors.Is(s, nfs3.ErrNotDir) || errors.Is(s, nfs3.ErrIsDir)) {
			return nfs3.ErrExist // RFC 1813 Section 3.3.14
		}
		return err
	})
	switch {
	case err != nil:
		return status(err)
	case replaces && old.key == st.key:
		return nil
	case replaces:
		f.lose(place{to, name}, &old)
	}
	f.tab.move(c, place{n.node, from}, place{to, name})
	return nil
}

// Link gives a file one more name.
func (n *file) Link(other backend.Node, name string) error {
	c, ok := other.(*file)
	if !ok || c.fs != n.fs {
		return nfs3.ErrXDev
	}
	if c.typ == nfs3.TypeDir {
		return nfs3.ErrInval
	}
	d, err := n.toChange(name, nfs3.ErrExist)
	if err != nil {
		return err
	}
	defer d.done()
	g, err := c.hold()
	if err != nil {
		return err
	}
	defer g.done()
	err = n.do(func() error {
		if err := n.fs.linkAt(g, d, name); err != nil {
			return err
		}
		_, _, err := n.fs.look(d, name)
		return err
	})
	if err != nil {
		return status(err)
	}
	return n.fs.settle(d)
}

// rawEntry is a name as the system lists it.
type rawEntry struct {
	name     string
	ino      uint64
	cookie   uint64 // the position after it
	maybeDir bool   // a directory, or unknown
}

// cookieVerf is the verifier of all cookies. They are positions in the file system's own order
// and stay valid as long as the directory exists, even across restarts.
var cookieVerf = nfs3.CookieVerf(binary.BigEndian.AppendUint64(nil, 0x7374616764697231))

// ReadDir lists the names after cookie. It opens the directory, and looks up its names, as the caller: who
// may not search it gets no attributes and no handles.
func (n *file) ReadDir(cookie uint64, verf nfs3.CookieVerf, plus bool, fn func(*nfs3.DirPlusEntry) bool) (nfs3.CookieVerf, bool, error) {
	if cookie != 0 && verf != cookieVerf {
		return cookieVerf, false, nfs3.ErrBadCookie
	}
	g, err := n.open()
	if err != nil {
		return cookieVerf, false, err
	}
	defer g.done()
	self, err := g.stat()
	if err != nil {
		return cookieVerf, false, err
	}
	var (
		up    *node // of ".."
		eof   bool
		taken int
		e     nfs3.DirPlusEntry
	)
	if plus { // finding it may take a search
		up, _ = n.fs.above(n.node, g)
	}
	err = n.do(func() (err error) {
		eof, taken, err = n.fs.list(g, cookie, func(r *rawEntry) bool {
			e = nfs3.DirPlusEntry{DirEntry: nfs3.DirEntry{FileID: r.ino, Name: r.name, Cookie: r.cookie}}
			if r.name == ".." && n.node == n.fs.root {
				e.FileID = self.attr.FileID // show nothing of what is above the export
			}
			if plus {
				n.addAttr(g, up, &e)
			}
			return fn(&e)
		})
		return err
	})
	if err != nil && taken > 0 {
		err = nil // the next call returns the error
	}
	return cookieVerf, eof, status(err)
}

// addAttr adds attributes and handle to an entry, if the name still exists. It runs as the caller.
func (n *file) addAttr(d gripRef, up *node, e *nfs3.DirPlusEntry) {
	var (
		c   *node
		st  stat
		err error
	)
	switch e.Name {
	case ".":
		if err = d.access(mayExec); err == nil {
			c = n.node
			st, err = d.stat()
		}
	case "..":
		if up == nil || d.access(mayExec) != nil {
			return
		}
		c = up
		st, err = up.look()
	default:
		c, st, err = n.fs.look(d, e.Name)
	}
	if err == nil {
		e.FileID = st.attr.FileID
		e.Attr = nfs3.SomeAttr(&st.attr)
		e.Handle = nfs3.SomeHandle(c.AppendHandle(nil))
	}
}
