package billy

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"slices"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// live returns an error unless n is a directory that still exists. The caller holds fs.mu.
func (n *node) live() error {
	info, err := n.stat()
	if err == nil && !info.IsDir() {
		err = nfs3.ErrNotDir
	}
	return err
}

// find returns what is under a name. The caller holds fs.mu.
func (n *node) find(name string) (*node, fs.FileInfo, error) {
	if err := n.live(); err != nil {
		return nil, nil, err
	}
	if err := backend.CheckName(name); err != nil {
		return nil, nil, err
	}
	if backend.IsDots(name) {
		return nil, nil, nfs3.ErrInval
	}
	info, err := n.fs.under.Lstat(n.in(name))
	if err != nil {
		if old := n.kids[name]; old != nil && errors.Is(err, fs.ErrNotExist) {
			n.fs.forget(old)
		}
		return nil, nil, status(err)
	}
	return n.fs.node(n, name), info, nil
}

// Lookup finds a name.
func (n *node) Lookup(name string) (backend.Node, nfs3.Attr, error) {
	n.fs.lock()
	defer n.fs.mu.Unlock()
	if backend.IsDots(name) {
		if err := n.live(); err != nil {
			return nil, nfs3.Attr{}, err
		}
		if name == ".." && n.parent != nil {
			n = n.parent
		}
		return n.found()
	}
	c, info, err := n.find(name)
	if err != nil {
		return nil, nfs3.Attr{}, err
	}
	return c, c.attr(info), nil
}

// found returns n and its attributes. The caller holds fs.mu.
func (n *node) found() (backend.Node, nfs3.Attr, error) {
	info, err := n.stat()
	if err != nil {
		return nil, nfs3.Attr{}, err
	}
	return n, n.attr(info), nil
}

// make is what all operations that create a name have in common; do makes the file.
func (n *node) make(name string, in *backend.Init, do func(path string) error) (backend.Node, nfs3.Attr, error) {
	n.fs.lock()
	defer n.fs.mu.Unlock()
	_, _, err := n.find(name)
	switch {
	case err == nil, backend.IsDots(name) && errors.Is(err, nfs3.ErrInval):
		return nil, nfs3.Attr{}, nfs3.ErrExist
	case !errors.Is(err, nfs3.ErrNoEnt):
		return nil, nfs3.Attr{}, err
	case n.fs.ro:
		return nil, nfs3.Attr{}, nfs3.ErrROFS
	}
	if err := do(n.in(name)); err != nil {
		return nil, nfs3.Attr{}, status(err)
	}
	c := n.fs.node(n, name)
	n.ctime, n.mtime = n.fs.now, n.fs.now
	if err := c.init(in); err != nil {
		return nil, nfs3.Attr{}, err
	}
	c.verf = in.Verf
	return c.found()
}

// init gives a new file its attributes, as far as go-billy can: it has been made, and that counts.
func (n *node) init(in *backend.Init) error {
	info, err := n.stat()
	if err != nil {
		return err
	}
	a := in.Attr
	a.SetUID, a.SetGID = false, false
	if a.SetSize && a.Size > 0 && info.Mode().IsRegular() {
		if err := n.truncate(info.Mode(), a.Size); err != nil {
			return err
		}
	}
	if err := n.setMeta(info, &a); err != nil && !errors.Is(err, nfs3.ErrNotSupp) {
		return err
	}
	return nil
}

// mode returns the permissions of a new file.
func mode(in *backend.Init, def fs.FileMode) fs.FileMode {
	if in.Attr.SetMode {
		return fileMode(in.Attr.Mode).Perm()
	}
	return def
}

// Create makes a regular file.
func (n *node) Create(name string, in *backend.Init) (backend.Node, nfs3.Attr, error) {
	if in.Attr.SetSize && in.Attr.Size > min(n.fs.cfg.MaxFileSize, 1<<63-1) {
		return nil, nfs3.Attr{}, nfs3.ErrFBig
	}
	return n.make(name, in, func(p string) error {
		file, err := n.fs.under.OpenFile(p, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode(in, 0o644))
		if err != nil {
			return err
		}
		return file.Close()
	})
}

// Mkdir makes a directory.
func (n *node) Mkdir(name string, in *backend.Init) (backend.Node, nfs3.Attr, error) {
	return n.make(name, in, func(p string) error { return n.fs.under.MkdirAll(p, mode(in, 0o755)) })
}

// Symlink makes a symbolic link.
func (n *node) Symlink(name, target string, in *backend.Init) (backend.Node, nfs3.Attr, error) {
	return n.make(name, &backend.Init{Verf: in.Verf}, func(p string) error { return n.fs.under.Symlink(target, p) })
}

// Mknod is not supported.
func (n *node) Mknod(name string, _ nfs3.FileType, _ nfs3.Device, in *backend.Init) (backend.Node, nfs3.Attr, error) {
	return n.make(name, in, func(string) error { return nfs3.ErrNotSupp })
}

// Remove removes a name that is not a directory.
func (n *node) Remove(name string) error { return n.unlink(name, false) }

// Rmdir removes an empty directory.
func (n *node) Rmdir(name string) error { return n.unlink(name, true) }

func (n *node) unlink(name string, dir bool) error {
	n.fs.lock()
	defer n.fs.mu.Unlock()
	c, info, err := n.find(name)
	switch {
	case err != nil:
		return err
	case n.fs.ro:
		return nfs3.ErrROFS
	case info.IsDir() && !dir:
		return nfs3.ErrIsDir
	case !info.IsDir() && dir:
		return nfs3.ErrNotDir
	}
	return n.drop(c, info)
}

// drop removes c from n. The caller holds fs.mu.
func (n *node) drop(c *node, info fs.FileInfo) error {
	p := c.path()
	if info.IsDir() {
		inside, err := n.fs.under.ReadDir(p)
		if err != nil {
			return status(err)
		}
		if len(inside) > 0 {
			return nfs3.ErrNotEmpty
		}
	}
	if err := n.fs.under.Remove(p); err != nil {
		return status(err)
	}
	n.fs.forget(c)
	n.ctime, n.mtime = n.fs.now, n.fs.now
	return nil
}

// Rename moves a name.
func (n *node) Rename(from string, to backend.Node, name string) error {
	d, ok := to.(*node)
	if !ok || d.fs != n.fs {
		return nfs3.ErrXDev
	}
	n.fs.lock()
	defer n.fs.mu.Unlock()
	c, info, err := n.find(from)
	if err != nil {
		return err
	}
	old, oldInfo, err := d.find(name)
	if err != nil && !errors.Is(err, nfs3.ErrNoEnt) {
		return err
	}
	for up := d; up != nil; up = up.parent {
		if up == c {
			return nfs3.ErrInval // into itself
		}
	}
	switch {
	case n.fs.ro:
		return nfs3.ErrROFS
	case old == c:
		return nil
	case old != nil && oldInfo.IsDir() != info.IsDir():
		return nfs3.ErrExist
	case old != nil && info.IsDir():
		if err := d.drop(old, oldInfo); err != nil { // go-billy does not say what Rename does then
			return err
		}
		old = nil
	}
	if err := n.fs.under.Rename(c.path(), d.in(name)); err != nil {
		return status(err)
	}
	if old != nil {
		n.fs.forget(old)
	}
	delete(n.kids, from)
	c.name = name
	d.adopt(c)
	now := n.fs.now
	n.ctime, d.ctime, c.ctime = now, now, now
	n.mtime, d.mtime = now, now
	return nil
}

// Link is not supported.
func (n *node) Link(backend.Node, string) error {
	n.fs.lock()
	defer n.fs.mu.Unlock()
	if err := n.live(); err != nil {
		return err
	}
	return nfs3.ErrNotSupp
}

// dotCookies are the cookies of "." and "..". That of another name is the number of its file and dotCookies: names
// that come later have greater ones.
const dotCookies = 2

// ReadDir lists the names after cookie.
func (n *node) ReadDir(cookie uint64, verf nfs3.CookieVerf, _ bool, fn func(*nfs3.DirPlusEntry) bool) (nfs3.CookieVerf, bool, error) {
	own := nfs3.CookieVerf(n.fs.boot)
	list, err := n.list(cookie, verf == own)
	if err != nil {
		return own, false, err
	}
	for i := range list {
		if !fn(&list[i]) {
			return own, false, nil
		}
	}
	return own, true, nil
}

// list returns the entries after cookie.
func (n *node) list(cookie uint64, valid bool) ([]nfs3.DirPlusEntry, error) {
	n.fs.lock()
	defer n.fs.mu.Unlock()
	if err := n.live(); err != nil {
		return nil, err
	}
	if cookie != 0 && !valid {
		return nil, nfs3.ErrBadCookie
	}
	infos, err := n.fs.under.ReadDir(n.path())
	if err != nil {
		return nil, status(err)
	}
	var list []nfs3.DirPlusEntry
	up := n
	if n.parent != nil {
		up = n.parent
	}
	for i, dots := range []*node{n, up} {
		if _, a, err := dots.found(); err == nil && uint64(i) >= cookie {
			list = append(list, dots.entry([]string{".", ".."}[i], uint64(i)+1, &a))
		}
	}
	for _, info := range infos {
		name := info.Name()
		if backend.CheckName(name) != nil || backend.IsDots(name) {
			continue
		}
		if k := n.fs.node(n, name); k.id+dotCookies > cookie {
			a := k.attr(info)
			list = append(list, k.entry(name, k.id+dotCookies, &a))
		}
	}
	slices.SortFunc(list, func(a, b nfs3.DirPlusEntry) int { return cmp.Compare(a.Cookie, b.Cookie) })
	return list, nil
}

// entry describes n in a list.
func (n *node) entry(name string, cookie uint64, a *nfs3.Attr) nfs3.DirPlusEntry {
	return nfs3.DirPlusEntry{
		DirEntry: nfs3.DirEntry{FileID: n.id, Name: name, Cookie: cookie},
		Attr:     nfs3.SomeAttr(a), Handle: nfs3.SomeHandle(n.AppendHandle(nil)),
	}
}
