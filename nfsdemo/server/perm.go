package server

import "github.com/stag-rdma/stag/nfsdemo/nfs3"

// Permission bits of one class.
const (
	permR uint32 = 4
	permW uint32 = 2
	permX uint32 = 1
)

// Mode bits beyond the permissions.
const (
	modeSetUID uint32 = 0o4000
	modeSetGID uint32 = 0o2000
	modeSticky uint32 = 0o1000
)

// may reports whether the mode bits grant all of want.
func (c *Cred) may(a *nfs3.Attr, want uint32) bool {
	if c.root() {
		// Root may execute a file only if somebody may.
		return want&permX == 0 || a.Type == nfs3.TypeDir || a.Mode&0o111 != 0
	}
	return c.class(a)&want == want
}

// class returns the permission bits that apply to c: owner's, group's or others'.
func (c *Cred) class(a *nfs3.Attr) uint32 {
	switch {
	case c.UID == a.UID:
		return a.Mode >> 6 & 7
	case c.in(a.GID):
		return a.Mode >> 3 & 7
	default:
		return a.Mode & 7
	}
}

// owns reports whether c is the owner, or root.
func (c *Cred) owns(a *nfs3.Attr) bool { return c.root() || c.UID == a.UID }

// mayRead is the check of READ: the owner of a file may always read it, because it may have opened the
// file before the mode changed, and whoever may execute a file must be able to read it (RFC 1813 Section
// 4.4).
func (c *Cred) mayRead(a *nfs3.Attr) bool {
	return c.owns(a) || c.may(a, permR) || c.may(a, permX)
}

// mayWrite is the check of WRITE and of a change of size, with the same exception for the owner.
func (c *Cred) mayWrite(a *nfs3.Attr) bool { return c.owns(a) || c.may(a, permW) }

// mayDelete reports whether c may remove the name of victim from the writable directory dir. In a sticky
// directory c must own the file or the directory.
func (c *Cred) mayDelete(dir, victim *nfs3.Attr) bool {
	return dir.Mode&modeSticky == 0 || c.owns(victim) || c.owns(dir)
}

// access returns the subset of want that is granted (RFC 1813 Section 3.3.4).
func (c *Cred) access(a *nfs3.Attr, want nfs3.Access) nfs3.Access {
	var got nfs3.Access
	dir := a.Type == nfs3.TypeDir
	if c.may(a, permR) {
		got |= nfs3.AccessRead
	}
	if c.may(a, permW) {
		got |= nfs3.AccessModify | nfs3.AccessExtend
		if dir {
			got |= nfs3.AccessDelete
		}
	}
	if c.may(a, permX) {
		if dir {
			got |= nfs3.AccessLookup
		} else {
			got |= nfs3.AccessExecute
		}
	}
	return got & want
}
