package juicefs

import (
	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// SetAttr changes the size, then the owner, then mode and times: each step is one transaction.
func (n *file) SetAttr(s *nfs3.SetAttr) error {
	a, err := n.stat()
	if err == nil {
		err = n.maySet(&a, s)
	}
	if err != nil {
		return err
	}
	if s.SetSize {
		if err := n.truncate(s.Size); err != nil {
			return err
		}
		if err := n.dropSetID(&a); err != nil {
			return err
		}
	}
	return n.set(s)
}

func (n *file) truncate(size uint64) error {
	o, err := n.fs.v.files.get(n.ino)
	if err != nil {
		return err
	}
	defer n.fs.v.files.put(o)
	return o.cut(size)
}

// set changes the attributes besides the size.
func (n *file) set(s *nfs3.SetAttr) error {
	var owner uint16
	a := meta.Attr{Uid: s.UID, Gid: s.GID}
	if s.SetUID {
		owner |= meta.SetAttrUID
	}
	if s.SetGID {
		owner |= meta.SetAttrGID
	}
	if err := n.change(owner, &a); err != nil {
		return err
	}
	var rest uint16
	a = meta.Attr{}
	if s.SetMode && n.typ != nfs3.TypeLnk {
		rest |= meta.SetAttrMode
		a.Mode = uint16(s.Mode & 0o7777)
	}
	switch s.AtimeHow {
	case nfs3.ServerTime:
		rest |= meta.SetAttrAtimeNow
	case nfs3.ClientTime:
		rest |= meta.SetAttrAtime
		a.Atime, a.Atimensec = unix(s.Atime)
	case nfs3.DontChange:
	}
	switch s.MtimeHow {
	case nfs3.ServerTime:
		rest |= meta.SetAttrMtimeNow
	case nfs3.ClientTime:
		rest |= meta.SetAttrMtime
		a.Mtime, a.Mtimensec = unix(s.Mtime)
	case nfs3.DontChange:
	}
	if rest&(meta.SetAttrMtime|meta.SetAttrMtimeNow) != 0 { // octets that get stable later would change it again
		if err := n.settle(); err != nil {
			return err
		}
	}
	return n.change(rest, &a)
}

// settle makes the file's octets stable.
func (n *file) settle() error {
	if n.typ != nfs3.TypeReg {
		return nil
	}
	o, err := n.fs.v.files.get(n.ino)
	if err != nil {
		return err
	}
	defer n.fs.v.files.put(o)
	return o.flush()
}

// unix returns a time with less than a second in nanoseconds.
func unix(t nfs3.Time) (int64, uint32) { return int64(t.Sec), min(t.Nsec, 999999999) }

// change makes one change as the caller.
func (n *file) change(set uint16, a *meta.Attr) error {
	if set == 0 {
		return nil
	}
	return gone(n.fs.v.m.SetAttr(n.ctx(), n.ino, set, 0, a))
}

// dropSetID clears the set-id bits of a file that an unprivileged caller changes, as the kernel does for local ones.
func (n *file) dropSetID(a *meta.Attr) error {
	bits := modeSetUID
	if a.Mode&0o010 != 0 {
		bits |= modeSetGID
	}
	if n.root() || a.Mode&bits == 0 {
		return nil
	}
	return gone(n.fs.v.m.SetAttr(n.fs.v.ctx, n.ino, meta.SetAttrMode, 0, &meta.Attr{Mode: a.Mode &^ bits}))
}
