package mem

import (
	"errors"
	"sort"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// linkMax is the largest number of names of a file.
const linkMax = 1 << 16

// entry is a name in a directory.
type entry struct {
	name   string
	cookie uint64
	node   *node // nil once removed
}

// live returns an error unless n is a directory that still exists. The caller holds fs.mu.
func (n *node) live() error {
	switch {
	case !n.isDir():
		return nfs3.ErrNotDir
	case n.fs.nodes[n.attr.FileID] != n:
		return nfs3.ErrStale
	}
	return nil
}

// find returns the entry of a name. The caller holds fs.mu.
func (n *node) find(name string) (*entry, error) {
	if err := n.live(); err != nil {
		return nil, err
	}
	if err := backend.CheckName(name); err != nil {
		return nil, err
	}
	if e := n.names[name]; e != nil {
		return e, nil
	}
	return nil, nfs3.ErrNoEnt
}

// free returns an error if name cannot be made in n. The caller holds fs.mu.
func (n *node) free(name string) error {
	if backend.IsDots(name) {
		return nfs3.ErrExist
	}
	_, err := n.find(name)
	switch {
	case err == nil:
		return nfs3.ErrExist
	case errors.Is(err, nfs3.ErrNoEnt):
		return nil
	}
	return err
}

// Lookup finds a name.
func (n *file) Lookup(name string) (backend.Node, nfs3.Attr, error) {
	n.fs.mu.RLock()
	defer n.fs.mu.RUnlock()
	if err := n.searchable(); err != nil {
		return nil, nfs3.Attr{}, err
	}
	switch name {
	case ".":
		return n.with(n.node)
	case "..":
		return n.with(n.parent)
	}
	e, err := n.find(name)
	if err != nil {
		return nil, nfs3.Attr{}, err
	}
	return n.with(e.node)
}

// with returns another file as the same caller sees it, and its attributes.
func (n *file) with(c *node) (backend.Node, nfs3.Attr, error) {
	a, err := c.Attr()
	if err != nil {
		return nil, a, err
	}
	return &file{c, n.who}, a, nil
}

// add puts a new file under a name. The caller holds fs.mu.
func (n *node) add(name string, c *node) {
	n.cookie++
	e := &entry{name: name, cookie: n.cookie + dotCookies, node: c}
	n.names[name] = e
	n.order = append(n.order, e)
	links := 0
	if c.isDir() {
		c.parent, links = n, 1
	}
	n.touch(links)
}

// take removes an entry. The caller holds fs.mu.
func (n *node) take(e *entry) {
	links := 0
	if e.node.isDir() {
		links = -1
	}
	delete(n.names, e.name)
	e.node = nil
	// Listings pass over the dead. While these are fewer than half, that costs little, and removing costs nothing.
	if n.dead++; n.dead > 32 && n.dead > len(n.order)/2 {
		n.compact()
	}
	n.touch(links)
}

// compact forgets removed entries. Cookies do not change.
func (n *node) compact() {
	kept := make([]*entry, 0, len(n.names))
	for _, e := range n.order {
		if e.node != nil {
			kept = append(kept, e)
		}
	}
	n.order, n.dead = kept, 0
}

// make is what all operations that create a name have in common.
func (n *file) make(name string, t nfs3.FileType, in *backend.Init, mode uint32) (*node, error) {
	if err := n.searchable(); err != nil {
		return nil, err
	}
	if err := n.free(name); err != nil {
		return nil, err
	}
	dir, err := n.Attr()
	if err != nil {
		return nil, err
	}
	if !n.may(&dir, permW) {
		return nil, nfs3.ErrAcces
	}
	c, err := n.fs.newNode(t, n.owned(in, t, &dir), mode)
	if err != nil {
		return nil, err
	}
	n.add(name, c)
	return c, nil
}

// owned returns in with the owner, the group and the mode that the file gets. The group is that of a
// set-group-id directory, and directories inherit that bit.
func (n *file) owned(in *backend.Init, t nfs3.FileType, dir *nfs3.Attr) *backend.Init {
	out := *in
	var uid, gid uint32
	if n.who != nil {
		uid, gid = n.who.UID, n.who.GID
	}
	if dir.Mode&modeSetGID != 0 {
		gid = dir.GID
		if t == nfs3.TypeDir && in.Attr.SetMode {
			out.Attr.Mode |= modeSetGID
		}
	}
	if in.Attr.SetUID && n.root() {
		uid = in.Attr.UID
	}
	if in.Attr.SetGID && (n.root() || n.in(in.Attr.GID)) {
		gid = in.Attr.GID
	}
	out.Attr.UID, out.Attr.GID = uid, gid
	return &out
}

// madeWith compares the verifier of an exclusive CREATE.
func (n *node) madeWith(v nfs3.CreateVerf) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.verf != nil && *n.verf == v
}

// Create makes a file. Only root may make devices.
func (n *file) Create(name string, in *backend.Init) (backend.Node, nfs3.Attr, error) {
	n.fs.mu.Lock()
	defer n.fs.mu.Unlock()
	typ, mode := in.Type, uint32(0o644)
	switch typ {
	case 0, nfs3.TypeReg:
		if typ = nfs3.TypeReg; in.Attr.SetSize && in.Attr.Size > 1<<63-1 {
			return nil, nfs3.Attr{}, nfs3.ErrFBig
		}
	case nfs3.TypeDir:
		mode = 0o755
	case nfs3.TypeLnk:
		if mode = 0o777; len(in.Target) > nfs3.MaxPath {
			return nil, nfs3.Attr{}, nfs3.ErrNameTooLong
		}
	case nfs3.TypeChr, nfs3.TypeBlk:
		if !n.root() {
			return nil, nfs3.Attr{}, nfs3.ErrPerm
		}
	case nfs3.TypeSock, nfs3.TypeFIFO:
	}
	c, err := n.make(name, typ, in, mode)
	if errors.Is(err, nfs3.ErrExist) && in.Verf != nil {
		if e := n.names[name]; e != nil && e.node.madeWith(*in.Verf) { // the answer to this CREATE was lost
			return n.with(e.node)
		}
	}
	if err != nil {
		return nil, nfs3.Attr{}, err
	}
	switch typ {
	case nfs3.TypeReg:
		if in.Attr.SetSize {
			c.attr.Size = in.Attr.Size
		}
	case nfs3.TypeLnk:
		c.target, c.attr.Size = in.Target, uint64(len(in.Target))
	default:
		c.attr.Rdev = in.Rdev
	}
	return n.with(c)
}

// Cookies: 1 is the position after ".", 2 the one after ".."; names count on from there. A
// directory gives each cookie once, so a name keeps its cookie.
const dotCookies = 2

// ReadDir lists the names after cookie.
func (n *file) ReadDir(cookie uint64, verf nfs3.CookieVerf, plus bool, fn func(*nfs3.DirPlusEntry) bool) (nfs3.CookieVerf, bool, error) {
	n.fs.mu.RLock()
	defer n.fs.mu.RUnlock()
	own := nfs3.CookieVerf(n.fs.boot)
	if err := n.live(); err != nil {
		return own, false, err
	}
	self, err := n.Attr()
	if err != nil {
		return own, false, err
	}
	if !n.may(&self, permR) {
		return own, false, nfs3.ErrAcces
	}
	plus = plus && n.may(&self, permX) // attributes and handles are found by a search
	if cookie != 0 && verf != own {
		return own, false, nfs3.ErrBadCookie
	}
	for c := cookie; c < dotCookies; c++ {
		name, of := ".", n.node
		if c == 1 {
			name, of = "..", n.parent
		}
		if !fn(of.entry(name, c+1, plus)) {
			return own, false, nil
		}
	}
	at := sort.Search(len(n.order), func(i int) bool { return n.order[i].cookie > cookie })
	for _, e := range n.order[at:] {
		if e.node != nil && !fn(e.node.entry(e.name, e.cookie, plus)) {
			return own, false, nil
		}
	}
	return own, true, nil
}

// entry returns the directory entry for n under a name.
func (n *node) entry(name string, cookie uint64, plus bool) *nfs3.DirPlusEntry {
	e := &nfs3.DirPlusEntry{DirEntry: nfs3.DirEntry{FileID: n.attr.FileID, Name: name, Cookie: cookie}}
	if plus {
		if a, err := n.Attr(); err == nil {
			e.Attr = nfs3.SomeAttr(&a)
			e.Handle = nfs3.SomeHandle(n.AppendHandle(nil))
		}
	}
	return e
}

// Remove removes a name.
func (n *file) Remove(name string, dir bool) error {
	n.fs.mu.Lock()
	defer n.fs.mu.Unlock()
	e, err := n.deletable(name)
	switch {
	case err != nil:
		return err
	case e.node.isDir() && !dir:
		return nfs3.ErrIsDir
	case !e.node.isDir() && dir:
		return nfs3.ErrNotDir
	case len(e.node.names) > 0:
		return nfs3.ErrNotEmpty
	}
	n.displace(e)
	return nil
}

// Rename moves a name.
func (n *file) Rename(from string, to backend.Node, name string) error {
	t, ok := to.(*file)
	if !ok || t.fs != n.fs {
		return nfs3.ErrXDev
	}
	n.fs.mu.Lock()
	defer n.fs.mu.Unlock()
	e, err := n.deletable(from)
	if err != nil {
		return err
	}
	old, err := t.deletable(name)
	switch {
	case errors.Is(err, nfs3.ErrNoEnt):
		old = nil
	case err != nil:
		return err
	case old.node == e.node:
		return nil // two names of one file (RFC 1813 Section 3.3.14)
	}
	if old == nil { // otherwise deletable has looked
		if dir, err := t.Attr(); err != nil || !t.may(&dir, permW) {
			return nfs3.ErrAcces
		}
	}
	if err := n.mayMove(e.node, t.node); err != nil {
		return err
	}
	if err := n.movable(e.node, t.node, old); err != nil {
		return err
	}
	c := e.node
	if old != nil {
		t.displace(old)
	}
	n.take(e)
	t.add(name, c)
	c.relink(0)
	return nil
}

// movable checks the kinds of a rename. The caller holds fs.mu.
func (n *node) movable(c, to *node, old *entry) error {
	if c.isDir() {
		for p := to; ; p = p.parent {
			if p == c {
				return nfs3.ErrInval
			}
			if p == p.parent {
				break
			}
		}
	}
	switch {
	case old == nil:
	case old.node.isDir() != c.isDir():
		return nfs3.ErrExist
	case len(old.node.names) > 0:
		return nfs3.ErrNotEmpty
	}
	return nil
}

// displace removes an entry and one link of its file; a directory is empty. The caller holds fs.mu.
func (n *node) displace(e *entry) {
	c := e.node
	n.take(e)
	if !c.isDir() {
		c.relink(-1)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attr.Nlink = 0
	c.drop()
}

// Link gives a file one more name.
func (n *file) Link(other backend.Node, name string) error {
	c, ok := other.(*file)
	if !ok || c.fs != n.fs {
		return nfs3.ErrXDev
	}
	n.fs.mu.Lock()
	defer n.fs.mu.Unlock()
	switch a, err := c.Attr(); {
	case err != nil:
		return err
	case c.isDir():
		return nfs3.ErrInval
	case a.Nlink >= linkMax:
		return nfs3.ErrMLink
	}
	if err := n.searchable(); err != nil {
		return err
	}
	if err := n.free(name); err != nil {
		return err
	}
	if dir, err := n.Attr(); err != nil || !n.may(&dir, permW) {
		return nfs3.ErrAcces
	}
	n.add(name, c.node)
	c.relink(1)
	return nil
}
