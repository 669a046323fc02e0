package dir

import (
	"errors"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// Remove removes a name that is not a directory.
func (n *node) Remove(name string) error {
	return n.removing(name, func(d *openDir, st *stat) error {
		if st.attr.Type == nfs3.TypeDir {
			return nfs3.ErrIsDir
		}
		return status(unlinkAt(d, name))
	})
}

// Rmdir removes an empty directory.
func (n *node) Rmdir(name string) error {
	return n.removing(name, func(d *openDir, st *stat) error {
		if st.attr.Type != nfs3.TypeDir {
			return nfs3.ErrNotDir
		}
		return status(rmdirAt(d, name))
	})
}

// removing looks up a name, runs rm, and updates the table.
func (n *node) removing(name string, rm func(d *openDir, st *stat) error) error {
	if err := backend.CheckName(name); err != nil {
		return err
	}
	if backend.IsDots(name) {
		return nfs3.ErrInval
	}
	ref, err := n.open()
	if err != nil {
		return err
	}
	defer ref.done()
	if err := n.unname(ref.openDir, name, rm); err != nil {
		return err
	}
	return n.fs.settle(ref.openDir)
}

func (n *node) unname(d *openDir, name string, rm func(d *openDir, st *stat) error) error {
	f := n.fs
	f.ns.Lock()
	defer f.ns.Unlock()
	st, err := f.statAt(d, name)
	if err != nil {
		return err
	}
	if err := rm(d, &st); err != nil {
		return err
	}
	f.lose(place{n, name}, &st)
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
func (n *node) Rename(from string, to backend.Node, name string) error {
	t, ok := to.(*node)
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
	if err := n.fs.move(src.openDir, from, dst.openDir, name); err != nil {
		return err
	}
	return n.fs.settle(dst.openDir, src.openDir)
}

// move renames and updates the table.
func (f *FS) move(src *openDir, from string, dst *openDir, name string) error {
	f.ns.Lock()
	defer f.ns.Unlock()
	st, err := f.statAt(src, from)
	if err != nil {
		return err
	}
	old, err := f.statAt(dst, name)
	if err != nil && !errors.Is(err, nfs3.ErrNoEnt) {
		return err
	}
	replaces := err == nil
	if replaces {
		if old.key == st.key {
			return nil // two names of the same file, or one name: nothing to do
		}
		if (old.attr.Type == nfs3.TypeDir) != (st.attr.Type == nfs3.TypeDir) {
			return nfs3.ErrExist // RFC 1813 Section 3.3.14
		}
	}
	if err := f.renameAt(src, from, dst, name, &st); err != nil {
		return status(err)
	}
	if replaces {
		f.lose(place{dst.node, name}, &old)
	}
	c := f.tab.enter(f, place{dst.node, name}, &st)
	f.tab.leave(c, place{src.node, from})
	return nil
}

// Link gives a file one more name.
func (n *node) Link(file backend.Node, name string) error {
	c, ok := file.(*node)
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
	ref, err := n.open()
	if err != nil {
		return err
	}
	defer ref.done()
	err = c.at(func(d *openDir, old string, _ *stat) error {
		return n.fs.join(d, old, ref.openDir, name, c)
	})
	if err != nil {
		return err
	}
	return n.fs.settle(ref.openDir)
}

// join makes the link. If a local process has replaced the file between the look at the old
// name and the system call, join removes the link again.
func (f *FS) join(d *openDir, old string, to *openDir, name string, c *node) error {
	f.ns.Lock()
	defer f.ns.Unlock()
	if err := f.linkAt(d, old, to, name); err != nil {
		return status(err)
	}
	st, err := f.statAt(to, name)
	if err != nil {
		return err
	}
	if st.key != c.key {
		_ = unlinkAt(to, name)
		return errMoved
	}
	f.tab.enter(f, place{to.node, name}, &st)
	return nil
}
