package mem

import (
	"errors"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

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
