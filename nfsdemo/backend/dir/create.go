package dir

import (
	"encoding/binary"
	"errors"
	"os"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// making runs mk in the directory n as the caller, so that the kernel gives the file its owner, group, mode
// and ACL. It adds what system calls cannot give at once, and makes both durable.
func (n *file) making(name string, in *backend.Init, mk func(d gripRef) error) (backend.Node, nfs3.Attr, error) {
	if err := backend.CheckName(name); err != nil {
		return nil, nfs3.Attr{}, err
	}
	if backend.IsDots(name) {
		return nil, nfs3.Attr{}, nfs3.ErrExist
	}
	d, err := n.open()
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
