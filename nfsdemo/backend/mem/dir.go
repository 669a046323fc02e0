package mem

import (
	"errors"

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
