package juicefs

import (
	"slices"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// Mode bits beyond the permissions.
const (
	modeSetUID uint16 = 0o4000
	modeSetGID uint16 = 0o2000
)

// root reports whether the caller may do everything.
func (n *file) root() bool { return n.who == nil || n.who.UID == 0 }

// in reports whether the caller is a member of a group.
func (n *file) in(gid uint32) bool {
	return n.who == nil || n.who.GID == gid || slices.Contains(n.who.Groups, gid)
}

// owns reports whether the caller is the owner, or root.
func (n *file) owns(a *meta.Attr) bool { return n.root() || n.who.UID == a.Uid }

// may returns the error if mode bits and ACL do not grant all of want.
func (n *file) may(a *meta.Attr, want uint8) error {
	if n.root() {
		if want&meta.MODE_MASK_X != 0 && a.Typ != meta.TypeDirectory && a.Mode&0o111 == 0 {
			return nfs3.ErrAcces // root may execute a file only if somebody may
		}
		return nil
	}
	return gone(n.fs.v.m.Access(n.ctx(), n.ino, want, a))
}

// mayRead is the check of READ, with the exceptions of Node.Open.
func (n *file) mayRead(a *meta.Attr) error {
	if n.owns(a) || n.may(a, meta.MODE_MASK_X) == nil {
		return nil
	}
	return n.may(a, meta.MODE_MASK_R)
}

// mayWrite is the check of WRITE and of a change of size, with the same exception for the owner.
func (n *file) mayWrite(a *meta.Attr) error {
	switch {
	case a.Flags&(meta.FlagImmutable|meta.FlagAppend) != 0:
		return nfs3.ErrPerm
	case n.owns(a):
		return nil
	}
	return n.may(a, meta.MODE_MASK_W)
}

// maySet returns an error unless the caller may make the change s. JuiceFS leaves much of this to the kernel.
func (n *file) maySet(a *meta.Attr, s *nfs3.SetAttr) error {
	owner := n.owns(a)
	switch {
	case s.SetSize && n.typ == nfs3.TypeDir:
		return nfs3.ErrIsDir
	case s.SetSize && n.typ != nfs3.TypeReg:
		return nfs3.ErrInval
	case s.SetSize && s.Size > maxFile:
		return nfs3.ErrFBig
	case s.SetSize && n.mayWrite(a) != nil:
		return n.mayWrite(a)
	case s.SetMode && !owner:
		return nfs3.ErrPerm
	case s.SetUID && !n.root() && (!owner || s.UID != a.Uid):
		return nfs3.ErrPerm
	case s.SetGID && !n.root() && (!owner || s.GID != a.Gid && !n.in(s.GID)):
		return nfs3.ErrPerm
	case (s.AtimeHow == nfs3.ClientTime || s.MtimeHow == nfs3.ClientTime) && !owner:
		return nfs3.ErrPerm
	case (s.AtimeHow == nfs3.ServerTime || s.MtimeHow == nfs3.ServerTime) && !owner:
		return n.may(a, meta.MODE_MASK_W)
	}
	return nil
}

// Access returns the subset of want that is granted (RFC 1813 Section 3.3.4).
func (n *file) Access(want nfs3.Access) (nfs3.Access, error) {
	a, err := n.stat()
	if err != nil {
		return 0, err
	}
	var got nfs3.Access
	dir := n.typ == nfs3.TypeDir
	if n.may(&a, meta.MODE_MASK_R) == nil {
		got |= nfs3.AccessRead
	}
	if n.may(&a, meta.MODE_MASK_W) == nil {
		got |= nfs3.AccessModify | nfs3.AccessExtend
		if dir {
			got |= nfs3.AccessDelete
		}
	}
	if n.may(&a, meta.MODE_MASK_X) == nil {
		if dir {
			got |= nfs3.AccessLookup
		} else {
			got |= nfs3.AccessExecute
		}
	}
	return got & want, nil
}

// Open returns the error of Read or Write.
func (n *file) Open(write bool, _ uint64, _ int) error {
	if n.typ != nfs3.TypeReg {
		return nfs3.ErrInval
	}
	a, err := n.stat()
	switch {
	case err != nil:
		return err
	case write:
		return n.mayWrite(&a)
	}
	return n.mayRead(&a)
}
