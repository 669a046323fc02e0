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

// pageNames is how many names are looked at while other calls wait.
const pageNames = 64

// ReadDir lists the names after cookie.
func (n *node) ReadDir(cookie uint64, verf nfs3.CookieVerf, _ bool, fn func(*nfs3.DirPlusEntry) bool) (nfs3.CookieVerf, bool, error) {
	own := nfs3.CookieVerf(n.fs.boot)
	if cookie != 0 && verf != own {
		return own, false, nfs3.ErrBadCookie
	}
	for last := false; !last; {
		var page []nfs3.DirPlusEntry
		var err error
		if page, cookie, last, err = n.page(cookie); err != nil {
			return own, false, err
		}
		for i := range page {
			if !fn(&page[i]) {
				return own, false, nil
			}
		}
	}
	return own, true, nil
}

// page returns some entries after cookie, and the cookie of the last name that it has looked at.
func (n *node) page(cookie uint64) (page []nfs3.DirPlusEntry, next uint64, last bool, err error) {
	n.fs.lock()
	defer n.fs.mu.Unlock()
	if err := n.live(); err != nil {
		return nil, 0, false, err
	}
	names, err := n.names(cookie == 0)
	if err != nil {
		return nil, 0, false, err
	}
	up := n
	if n.parent != nil {
		up = n.parent
	}
	for i, dots := range []*node{n, up} {
		if _, a, err := dots.found(); err == nil && uint64(i) >= cookie {
			page = append(page, dots.entry([]string{".", ".."}[i], uint64(i)+1, &a))
		}
	}
	at, _ := slices.BinarySearchFunc(names, cookie, func(k named, c uint64) int {
		if k.id+dotCookies > c {
			return 1
		}
		return -1
	})
	end := min(at+pageNames, len(names))
	for _, k := range names[at:end] {
		if c := n.fs.nodes[k.id]; c != nil {
			if c.parent != n {
				continue // moved away since
			}
			k.name = c.name
		}
		info, err := n.fs.under.Lstat(n.in(k.name))
		if err != nil {
			continue // removed since
		}
		c := n.fs.node(n, k.name)
		a := c.attr(info)
		page = append(page, c.entry(k.name, k.id+dotCookies, &a))
	}
	if next = max(cookie, dotCookies); end > 0 {
		next = max(next, names[end-1].id+dotCookies)
	}
	return page, next, end == len(names), nil
}

// named is a name in a directory, and the number that its file had when the directory was read.
type named struct {
	id   uint64
	name string
}

// listing is a directory as it was read for a cookie of 0: those who continue get its names, in order of their cookies,
// so that the whole directory is not read again for each page. The cookies are valid without it.
type listing struct {
	dir   *node
	names []named
}

// Limits of the listings that are kept.
const (
	maxListings = 64
	maxListed   = 1 << 20 // names
)

// names returns the names in n, of an earlier listing unless anew is set. The caller holds fs.mu.
func (n *node) names(anew bool) ([]named, error) {
	f := n.fs
	if i := slices.IndexFunc(f.listings, func(l listing) bool { return l.dir == n }); i >= 0 {
		l := f.listings[i]
		f.listings = slices.Delete(f.listings, i, i+1)
		if f.listed -= len(l.names); !anew {
			f.keep(l)
			return l.names, nil
		}
	}
	infos, err := f.under.ReadDir(n.path())
	if err != nil {
		return nil, status(err)
	}
	names := make([]named, 0, len(infos))
	for _, info := range infos {
		if name := info.Name(); backend.CheckName(name) == nil && !backend.IsDots(name) {
			names = append(names, named{f.node(n, name).id, name})
		}
	}
	slices.SortFunc(names, func(a, b named) int { return cmp.Compare(a.id, b.id) })
	if len(names) > pageNames {
		f.keep(listing{n, names})
	}
	return names, nil
}

// keep makes l the latest of the listings, and forgets the oldest if there are too many. The caller holds f.mu.
func (f *FS) keep(l listing) {
	f.listings = append(f.listings, l)
	for f.listed += len(l.names); len(f.listings) > maxListings || f.listed > maxListed; {
		f.listed -= len(f.listings[0].names)
		f.listings = slices.Delete(f.listings, 0, 1)
	}
}

// entry describes n in a list.
func (n *node) entry(name string, cookie uint64, a *nfs3.Attr) nfs3.DirPlusEntry {
	return nfs3.DirPlusEntry{
		DirEntry: nfs3.DirEntry{FileID: n.id, Name: name, Cookie: cookie},
		Attr:     nfs3.SomeAttr(a), Handle: nfs3.SomeHandle(n.AppendHandle(nil)),
	}
}
