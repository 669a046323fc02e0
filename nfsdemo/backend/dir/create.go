package dir

import (
	"os"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// making runs mk in the directory n, finishes what it made, and makes both durable.
func (n *node) making(name string, in *backend.Init, mk func(d *openDir) error) (backend.Node, nfs3.Attr, error) {
	if err := backend.CheckName(name); err != nil {
		return nil, nfs3.Attr{}, err
	}
	if backend.IsDots(name) {
		return nil, nfs3.Attr{}, nfs3.ErrExist
	}
	ref, err := n.open()
	if err != nil {
		return nil, nfs3.Attr{}, err
	}
	defer ref.done()
	if err := mk(ref.openDir); err != nil {
		return nil, nfs3.Attr{}, status(err)
	}
	c, a, err := n.finish(ref.openDir, name, in)
	if err == nil {
		err = n.fs.settle(ref.openDir)
	}
	return c, a, err
}

// finish gives a new file its owner, mode and times. If that fails, it removes the file: one
// with somebody else's permissions is worse than none.
func (n *node) finish(d *openDir, name string, in *backend.Init) (backend.Node, nfs3.Attr, error) {
	f := n.fs
	st, err := f.statAt(d, name)
	if err != nil {
		return nil, nfs3.Attr{}, err
	}
	set := f.dressing(in, &st)
	f.lost.unbury(st.key)
	c := f.tab.enter(f, place{n, name}, &st)
	if err := c.dress(d, name, &set, &st); err != nil {
		f.unmake(d, name, c)
		return nil, nfs3.Attr{}, err
	}
	return c, st.attr, nil
}

// dressing returns the attributes that a new file does not have yet.
func (f *FS) dressing(in *backend.Init, st *stat) nfs3.SetAttr {
	set := in.Attr
	set.SetSize = false
	set.SetUID, set.UID, set.SetGID, set.GID = f.owners, in.UID, f.owners, in.GID
	if in.Verf != nil {
		set.AtimeHow, set.MtimeHow = nfs3.ClientTime, nfs3.ClientTime
		set.Atime, set.Mtime = verfTimes(*in.Verf)
	}
	if st.attr.Type == nfs3.TypeLnk {
		set.SetMode = false // links have no mode
	}
	trim(&set, &st.attr)
	return set
}

// trim removes from set what a has already.
func trim(set *nfs3.SetAttr, a *nfs3.Attr) {
	set.SetUID = set.SetUID && set.UID != a.UID
	set.SetGID = set.SetGID && set.GID != a.GID
	set.SetMode = set.SetMode && (set.Mode != a.Mode || set.SetUID || set.SetGID)
}

// dress applies set to the new file and updates st.
func (n *node) dress(d *openDir, name string, set *nfs3.SetAttr, st *stat) error {
	if !set.IsZero() {
		if err := n.fs.setAt(d, name, n.key, set); err != nil {
			return err
		}
		now, err := n.fs.statAt(d, name)
		if err != nil {
			return err
		}
		*st = now
	}
	switch n.typ {
	case nfs3.TypeReg, nfs3.TypeDir:
		return n.settleAttr(d)
	case nfs3.TypeBlk, nfs3.TypeChr, nfs3.TypeLnk, nfs3.TypeSock, nfs3.TypeFIFO:
	}
	return nil // made durable with the directory
}

// unmake removes a file that could not be finished.
func (f *FS) unmake(d *openDir, name string, c *node) {
	f.ns.Lock()
	defer f.ns.Unlock()
	if st, err := f.statAt(d, name); err != nil || st.key != c.key {
		return
	}
	if c.typ == nfs3.TypeDir {
		_ = rmdirAt(d, name)
	} else {
		_ = unlinkAt(d, name)
	}
	f.gone(c.key)
}

// gone forgets a file that has no name anymore.
func (f *FS) gone(k key) {
	if s := f.files.get(k); s != nil {
		s.v.dirty.Store(false) // nobody can read its octets again
		f.files.put(s)
	}
	f.files.drop(k)
	f.dirs.drop(k)
	f.lost.bury(k)
	f.tab.remove(k)
}

// Create makes a regular file. Its descriptor stays open for the writes that follow, so that a
// file can be written even if its mode forbids opening it.
func (n *node) Create(name string, in *backend.Init) (backend.Node, nfs3.Attr, error) {
	if in.Attr.SetSize && in.Attr.Size > 1<<63-1 {
		return nil, nfs3.Attr{}, nfs3.ErrFBig
	}
	var o *openFile
	defer func() {
		if o != nil {
			_ = o.Close()
		}
	}()
	return n.making(name, in, func(d *openDir) error {
		file, err := d.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL|openFlags, 0o600)
		if err != nil {
			return err
		}
		o = &openFile{f: file, fs: n.fs, write: true}
		if in.Attr.SetSize && in.Attr.Size > 0 {
			err = file.Truncate(int64(in.Attr.Size))
		}
		st, serr := n.fs.statOpen(file, n.fs.newKey(d, name))
		if err != nil || serr != nil {
			_ = unlinkAt(d, name)
			return firstOf(err, serr)
		}
		n.fs.files.put(n.fs.files.add(st.key, o, true))
		o = nil
		return nil
	})
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Mkdir makes a directory.
func (n *node) Mkdir(name string, in *backend.Init) (backend.Node, nfs3.Attr, error) {
	return n.making(name, in, func(d *openDir) error { return d.root.Mkdir(name, 0o700) })
}

// Symlink makes a symbolic link. The target is not interpreted.
func (n *node) Symlink(name, target string, in *backend.Init) (backend.Node, nfs3.Attr, error) {
	return n.making(name, in, func(d *openDir) error { return symlinkAt(d, target, name) })
}

// Mknod makes a special file.
func (n *node) Mknod(name string, t nfs3.FileType, dev nfs3.Device, in *backend.Init) (backend.Node, nfs3.Attr, error) {
	return n.making(name, in, func(d *openDir) error { return mknodAt(d, name, t, dev) })
}
