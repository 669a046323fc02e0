package dir

import (
	"errors"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// Remove looks up a name, removes it as the caller, and forgets the file.
func (n *file) Remove(name string, dir bool) error {
	rm := unlinkAt
	if dir {
		rm = rmdirAt
	}
	if err := backend.CheckName(name); err != nil {
		return err
	}
	if backend.IsDots(name) {
		return nfs3.ErrInval
	}
	d, err := n.open()
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
	for _, s := range [...]string{from, name} {
		if err := backend.CheckName(s); err != nil {
			return err
		}
		if backend.IsDots(s) {
			return nfs3.ErrInval
		}
	}
	src, err := n.open()
	if err != nil {
		return err
	}
	defer src.done()
	dst, err := t.open()
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
	if err := backend.CheckName(name); err != nil {
		return err
	}
	if backend.IsDots(name) {
		return nfs3.ErrExist
	}
	d, err := n.open()
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
