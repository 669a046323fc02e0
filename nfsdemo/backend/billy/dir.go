package billy

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// live returns an error unless n is a directory that still exists. It is in use.
func (n *node) live() error {
	info, err := n.stat()
	if err == nil && !info.IsDir() {
		err = nfs3.ErrNotDir
	}
	return err
}

// child is the use of a name in n. A bad name is one of n alone, for find to refuse.
func (n *node) child(name string, move bool) *use {
	u := &use{n: n, name: name, move: move, bad: backend.CheckName(name)}
	if u.bad == nil && backend.IsDots(name) {
		u.bad = nfs3.ErrInval
	}
	if u.bad != nil {
		u.name, u.move = "", false
	}
	return u
}

// find returns what is under a name that is in use.
func (u *use) find() (*info, error) {
	if err := u.n.live(); err != nil {
		return nil, err
	}
	if u.bad != nil {
		return nil, u.bad
	}
	i, err := u.at.stat()
	if errors.Is(err, nfs3.ErrStale) {
		err = nfs3.ErrNoEnt
	}
	return i, err
}

// Lookup finds a name.
func (n *node) Lookup(name string) (backend.Node, nfs3.Attr, error) {
	u := n.child(name, false)
	if err := n.fs.begin(u); err != nil {
		return nil, nfs3.Attr{}, err
	}
	defer n.fs.end(u)
	if backend.IsDots(name) {
		if err := n.live(); err != nil {
			return nil, nfs3.Attr{}, err
		}
		if name == ".." && n.parent != nil {
			n = n.parent
		}
		return n.found()
	}
	info, err := u.find()
	if err != nil {
		return nil, nfs3.Attr{}, err
	}
	return u.at, u.at.attr(info), nil
}

// found returns n and its attributes. It is in use.
func (n *node) found() (backend.Node, nfs3.Attr, error) {
	info, err := n.stat()
	if err != nil {
		return nil, nfs3.Attr{}, err
	}
	return n, n.attr(info), nil
}

// make is what all operations that create a name have in common; do makes the file.
func (n *node) make(name string, in *backend.Init, do func(path string) error) (backend.Node, nfs3.Attr, error) {
	u := n.child(name, true)
	if err := n.fs.begin(u); err != nil {
		return nil, nfs3.Attr{}, err
	}
	defer n.fs.end(u)
	old, err := u.find()
	ours := false // the answer to this exclusive CREATE was lost
	n.note(func() { ours = err == nil && in.Verf != nil && u.at.verf != nil && *u.at.verf == *in.Verf })
	switch {
	case ours:
		return u.at, u.at.attr(old), nil
	case err == nil, backend.IsDots(name) && errors.Is(err, nfs3.ErrInval):
		return nil, nfs3.Attr{}, nfs3.ErrExist
	case !errors.Is(err, nfs3.ErrNoEnt):
		return nil, nfs3.Attr{}, err
	case n.fs.ro:
		return nil, nfs3.Attr{}, nfs3.ErrROFS
	}
	now := time.Now()
	if err := do(u.at.path()); err != nil {
		return nil, nfs3.Attr{}, status(err)
	}
	n.note(func() { n.ctime, n.mtime = now, now })
	if err := u.at.init(in); err != nil {
		return nil, nfs3.Attr{}, err
	}
	if in.Verf != nil {
		v := *in.Verf
		n.note(func() { u.at.verf = &v })
	}
	return u.at.found()
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

// Create makes a regular file, a directory or a symbolic link.
func (n *node) Create(name string, in *backend.Init) (backend.Node, nfs3.Attr, error) {
	switch in.Type {
	case nfs3.TypeDir:
		return n.make(name, in, func(p string) error { return n.fs.under.MkdirAll(p, mode(in, 0o755)) })
	case nfs3.TypeLnk:
		return n.make(name, &backend.Init{Verf: in.Verf}, func(p string) error { return n.fs.under.Symlink(in.Target, p) })
	case 0, nfs3.TypeReg:
	default:
		return n.make(name, in, func(string) error { return nfs3.ErrNotSupp })
	}
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

// Remove removes a name.
func (n *node) Remove(name string, dir bool) error {
	u := n.child(name, true)
	if err := n.fs.begin(u); err != nil {
		return err
	}
	defer n.fs.end(u)
	info, err := u.find()
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
	return u.drop(info)
}

// drop removes what is under the name.
func (u *use) drop(info *info) error {
	f, p := u.n.fs, u.at.path()
	if info.IsDir() {
		inside, err := f.under.ReadDir(p)
		if err != nil {
			return status(err)
		}
		if len(inside) > 0 {
			return nfs3.ErrNotEmpty
		}
	}
	now := time.Now()
	if err := f.under.Remove(p); err != nil {
		return status(err)
	}
	u.n.note(func() { u.at.there, u.n.ctime, u.n.mtime = false, now, now })
	return nil
}

// Rename moves a name.
func (n *node) Rename(from string, to backend.Node, name string) error {
	d, ok := to.(*node)
	if !ok || d.fs != n.fs {
		return nfs3.ErrXDev
	}
	src, dst := n.child(from, true), d.child(name, true)
	if err := n.fs.begin(src, dst); err != nil {
		return err
	}
	defer n.fs.end(src, dst)
	info, err := src.find()
	if err != nil {
		return err
	}
	old, err := dst.find()
	if err != nil && !errors.Is(err, nfs3.ErrNoEnt) {
		return err
	}
	c := src.at
	for up := d; up != nil; up = up.parent {
		if up == c {
			return nfs3.ErrInval // into itself
		}
	}
	switch {
	case n.fs.ro:
		return nfs3.ErrROFS
	case dst.at == c:
		return nil
	case old != nil && old.IsDir() != info.IsDir():
		return nfs3.ErrExist
	case old != nil && info.IsDir():
		if err := dst.drop(old); err != nil { // go-billy does not say what Rename does then
			return err
		}
	}
	now := time.Now()
	if err := n.fs.under.Rename(c.path(), dst.at.path()); err != nil {
		return status(err)
	}
	n.note(func() {
		n.fs.forget(dst.at)
		delete(n.kids, from)
		c.name = name
		d.adopt(c)
		n.ctime, d.ctime, c.ctime = now, now, now
		n.mtime, d.mtime = now, now
	})
	return nil
}

// Link is not supported.
func (n *node) Link(backend.Node, string) error {
	u := &use{n: n}
	if err := n.fs.begin(u); err != nil {
		return err
	}
	defer n.fs.end(u)
	if err := n.live(); err != nil {
		return err
	}
	return nfs3.ErrNotSupp
}

// dotCookies are the cookies of "." and "..". That of another name is the number of its file and dotCookies: names
// that come later have greater ones.
const dotCookies = 2

// ReadDir lists the names after cookie. Each is in use while it is looked at, and not while the directory is read.
func (n *node) ReadDir(cookie uint64, verf nfs3.CookieVerf, _ bool, fn func(*nfs3.DirPlusEntry) bool) (nfs3.CookieVerf, bool, error) {
	own := nfs3.CookieVerf(n.fs.boot)
	if cookie != 0 && verf != own {
		return own, false, nfs3.ErrBadCookie
	}
	names, up, err := n.names(cookie == 0)
	if err != nil {
		return own, false, err
	}
	for i, dots := range []*node{n, up} {
		if at := uint64(i) + 1; at > cookie {
			if e, ok := dots.entry(nil, []string{".", ".."}[i], at); ok && !fn(&e) {
				return own, false, nil
			}
		}
	}
	at, _ := slices.BinarySearchFunc(names, cookie, func(k named, c uint64) int {
		if k.id+dotCookies > c {
			return 1
		}
		return -1
	})
	for _, k := range names[at:] {
		if e, ok := n.fs.known(n, k).entry(n, "", k.id+dotCookies); ok && !fn(&e) {
			return own, false, nil
		}
	}
	return own, true, nil
}

// known returns the node of a name that was in n, perhaps a new one.
func (f *FS) known(n *node, k named) *node {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.nodes[k.id]; c != nil {
		return c
	}
	return f.node(n, k.name)
}

// entry describes n in a list, if it is still in that directory (nil: wherever it is) and exists.
func (n *node) entry(dir *node, name string, cookie uint64) (e nfs3.DirPlusEntry, ok bool) {
	u := &use{n: n}
	if n.fs.begin(u) != nil {
		return e, false
	}
	defer n.fs.end(u)
	if dir != nil && n.parent != dir {
		return e, false
	}
	info, err := n.stat()
	if err != nil {
		return e, false
	}
	a := n.attr(info)
	return nfs3.DirPlusEntry{
		DirEntry: nfs3.DirEntry{FileID: n.id, Name: cmp.Or(name, n.name), Cookie: cookie},
		Attr:     nfs3.SomeAttr(&a), Handle: nfs3.SomeHandle(n.AppendHandle(nil)),
	}, true
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
	minListed   = 64 // names: fewer are read again
	maxListings = 64
	maxListed   = 1 << 20 // names
)

// names returns the names in n, of an earlier listing unless anew is set, and the directory above.
func (n *node) names(anew bool) ([]named, *node, error) {
	f, u := n.fs, &use{n: n, list: true}
	if err := f.begin(u); err != nil {
		return nil, nil, err
	}
	defer f.end(u)
	if err := n.live(); err != nil {
		return nil, nil, err
	}
	up := cmp.Or(n.parent, n)
	if old, ok := f.kept(n, anew); ok {
		return old, up, nil
	}
	infos, err := f.under.ReadDir(n.path())
	if err != nil {
		return nil, nil, status(err)
	}
	names := make([]named, 0, len(infos))
	for _, info := range infos {
		if name := info.Name(); backend.CheckName(name) == nil && !backend.IsDots(name) {
			names = append(names, named{name: name})
		}
	}
	for i := range names { // one at a time: others wait for the table
		n.note(func() {
			kid := f.node(n, names[i].name)
			names[i].id, kid.there = kid.id, true
		})
	}
	slices.SortFunc(names, func(a, b named) int { return cmp.Compare(a.id, b.id) })
	f.keep(listing{n, names})
	return names, up, nil
}

// kept returns the listing of n, if there is one, as the latest; with anew it is dropped.
func (f *FS) kept(n *node, anew bool) ([]named, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.listings, func(l listing) bool { return l.dir == n })
	if i < 0 {
		return nil, false
	}
	l := f.listings[i]
	f.listings = slices.Delete(f.listings, i, i+1)
	if anew {
		f.listed -= len(l.names)
		return nil, false
	}
	f.listings = append(f.listings, l)
	return l.names, true
}

// keep makes l the latest of the listings, and forgets the oldest if there are too many.
func (f *FS) keep(l listing) {
	if len(l.names) < minListed {
		return
	}
	f.kept(l.dir, true) // of somebody who has read it at the same time
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listings = append(f.listings, l)
	for f.listed += len(l.names); len(f.listings) > maxListings || f.listed > maxListed; {
		f.listed -= len(f.listings[0].names)
		f.listings = slices.Delete(f.listings, 0, 1)
	}
}
