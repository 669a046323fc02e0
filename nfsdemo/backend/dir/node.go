package dir

import (
	"encoding/binary"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

var _ backend.Node = (*node)(nil)

// AppendHandle appends 28 octets.
func (n *node) AppendHandle(b []byte) []byte { return n.key.appendHandle(b) }

// Attr asks the kernel, through an open descriptor if there is one: that needs no name.
func (n *node) Attr() (nfs3.Attr, error) {
	f := n.fs
	switch {
	case n == f.root:
		st, err := f.statOpen(f.top.f, n.key)
		return st.attr, err
	case n.typ == nfs3.TypeDir:
		if s := f.dirs.get(n.key); s != nil {
			defer f.dirs.put(s)
			return n.linked(f.statOpen(s.v.f, n.key))
		}
	case n.typ == nfs3.TypeReg:
		if s := f.files.get(n.key); s != nil {
			defer f.files.put(s)
			return n.linked(f.statOpen(s.v.f, n.key))
		}
	}
	var a nfs3.Attr
	err := n.at(func(_ *openDir, _ string, st *stat) error {
		a = st.attr
		return nil
	})
	return a, err
}

// linked returns ErrStale for a file that has lost its last name, and closes the descriptor
// that keeps it alive.
func (n *node) linked(st stat, err error) (nfs3.Attr, error) {
	if err == nil && st.attr.Nlink == 0 {
		n.fs.gone(n.key)
		return nfs3.Attr{}, nfs3.ErrStale
	}
	return st.attr, err
}

// SetAttr changes attributes.
func (n *node) SetAttr(a *nfs3.SetAttr) error {
	if a.SetSize {
		if err := n.truncate(a.Size); err != nil {
			return err
		}
	}
	if n == n.fs.root {
		if err := n.fs.setOpen(n.fs.top, a); err != nil {
			return err
		}
		return n.fs.settle(n.fs.top)
	}
	return n.at(func(d *openDir, name string, _ *stat) error {
		if err := n.fs.setAt(d, name, n.key, a); err != nil {
			return err
		}
		return n.settleAttr(d)
	})
}

// truncate sets the size.
func (n *node) truncate(size uint64) error {
	if n.typ == nfs3.TypeDir {
		return nfs3.ErrIsDir
	}
	if size > 1<<63-1 {
		return nfs3.ErrFBig
	}
	s, err := n.openFile(true)
	if err != nil {
		return err
	}
	defer n.fs.files.put(s)
	s.v.dirty.Store(true)
	return status(s.v.f.Truncate(int64(size)))
}

// ReadLink returns the target.
func (n *node) ReadLink() (string, error) {
	if n.typ != nfs3.TypeLnk {
		return "", nfs3.ErrInval
	}
	var target string
	err := n.at(func(d *openDir, name string, _ *stat) error {
		t, err := d.root.Readlink(name)
		target = t
		return status(err)
	})
	return target, err
}

// verfTimes stores a create verifier in two times, 31 bits in each number of seconds, so that
// it fits file systems with 32-bit signed seconds.
func verfTimes(v nfs3.CreateVerf) (atime, mtime nfs3.Time) {
	const mask = 1<<31 - 1
	return nfs3.Time{Sec: binary.BigEndian.Uint32(v[:4]) & mask},
		nfs3.Time{Sec: binary.BigEndian.Uint32(v[4:]) & mask}
}

// HasVerf compares the times of a file with those that Create gives a file for v.
func (n *node) HasVerf(v nfs3.CreateVerf) (bool, error) {
	if n.typ != nfs3.TypeReg {
		return false, nil
	}
	a, err := n.Attr()
	at, mt := verfTimes(v)
	return err == nil && a.Size == 0 && a.Atime == at && a.Mtime == mt, err
}
