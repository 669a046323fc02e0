package nfs3

import (
	"cmp"
	"errors"
	"slices"

	"github.com/stag-rdma/stag/xdr"
)

// NFSACL version 3 (program 100227), which has no RFC: as Solaris defined it and Linux speaks it
// (fs/nfs_common/nfsacl.c, fs/nfsd/nfs3acl.c).
const (
	ACLProgram   = 100227
	ACLVersion   = 3
	ProcGetACL   = 1
	ProcSetACL   = 2
	ACLProcCount = 3
)

// MaxACE is how many entries an ACL may have.
const MaxACE = 1024

// Masks of GETACL and SETACL. The counts tell how many entries there are, without them.
const (
	ACLAccess       uint32 = 1
	ACLAccessCount  uint32 = 2
	ACLDefault      uint32 = 4
	ACLDefaultCount uint32 = 8

	aclAll = ACLAccess | ACLAccessCount | ACLDefault | ACLDefaultCount
)

// Tags of entries.
const (
	ACEUserObj  uint32 = 0x01
	ACEUser     uint32 = 0x02
	ACEGroupObj uint32 = 0x04
	ACEGroup    uint32 = 0x08
	ACEMask     uint32 = 0x10
	ACEOther    uint32 = 0x20

	aceDefault uint32 = 0x1000 // beside the tag, in default ACLs
)

// ACE is an entry of an ACL: to whom, and which of rwx (4, 2, 1).
type ACE struct {
	Tag, ID, Perm uint32 // ID counts for ACEUser and ACEGroup
}

// ACL is a POSIX ACL, in the order of tags and ids.
type ACL []ACE

// code is an ACL as the protocol has it, which differs: Solaris knows none of three entries, which is the mode, so that one gets
// a mask like the group; entries of default ACLs carry a flag, and those of owner and group name him. What is read has none of this.
// The count before the entries is that of those that there are, sent or not.
func (a *ACL) code(c *xdr.Coder, entries bool, flag, uid, gid uint32) {
	count, sent := uint32(0), []ACE(nil)
	if !c.Reads() {
		sent = slices.Clone(*a)
		if len(sent) == 3 {
			sent = append(sent, ACE{Tag: ACEMask, Perm: sent[max(find(sent, ACEGroupObj), 0)].Perm})
			sortACL(sent)
		}
		if count = uint32(len(sent)); !entries {
			sent = nil
		}
	}
	c.Uint32(&count)
	xdr.Array(c, &sent, MaxACE, 12, func(e *ACE, c *xdr.Coder) {
		if !c.Reads() {
			switch e.Tag {
			case ACEUserObj:
				e.ID = uid
			case ACEGroupObj:
				e.ID = gid
			case ACEMask, ACEOther:
				e.ID = 0
			}
			e.Tag |= flag
		}
		c.Uint32(&e.Tag, &e.ID, &e.Perm)
	})
	if !c.Reads() {
		return
	}
	for i := range sent {
		e := &sent[i]
		e.Tag, e.Perm = e.Tag&^aceDefault, e.Perm&7
		switch e.Tag {
		case ACEUser, ACEGroup:
		case ACEUserObj, ACEGroupObj, ACEMask, ACEOther:
			e.ID = 0
		default:
			c.Fail(errTag)
		}
	}
	sortACL(sent)
	group, mask := find(sent, ACEGroupObj), find(sent, ACEMask)
	if len(sent) == 4 && group >= 0 && mask >= 0 && sent[mask].Perm == sent[group].Perm {
		sent = slices.Delete(sent, mask, mask+1)
	}
	*a = sent
}

func sortACL(a []ACE) {
	slices.SortStableFunc(a, func(x, y ACE) int { return cmp.Or(cmp.Compare(x.Tag, y.Tag), cmp.Compare(x.ID, y.ID)) })
}

func find(a []ACE, tag uint32) int {
	return slices.IndexFunc(a, func(e ACE) bool { return e.Tag == tag })
}

var errTag = errors.New("no tag of an entry of an ACL")

// GetACLArgs is GETACL3args.
type GetACLArgs struct {
	Handle FileHandle
	Mask   uint32
}

func (a *GetACLArgs) Code(c *xdr.Coder) {
	a.Handle.Code(c)
	c.Uint32(&a.Mask)
}

// GetACLRes is GETACL3res.
type GetACLRes struct {
	Status          Status
	Attr            OptAttr
	Mask            uint32 // that of the arguments; of an ACL that it does not ask for, only the length is sent
	Access, Default ACL
}

func (r *GetACLRes) Code(c *xdr.Coder) {
	xdr.Word(c, &r.Status)
	if r.Attr.Code(c); r.Status == OK {
		c.Uint32(&r.Mask)
		r.Access.code(c, r.Mask&ACLAccess != 0, 0, r.Attr.Attr.UID, r.Attr.Attr.GID)
		r.Default.code(c, r.Mask&ACLDefault != 0, aceDefault, r.Attr.Attr.UID, r.Attr.Attr.GID)
	}
}

// SetACLArgs is SETACL3args: the ACLs of Mask replace those of the file; one without entries takes its away.
type SetACLArgs struct {
	Handle          FileHandle
	Mask            uint32
	Access, Default ACL
}

func (a *SetACLArgs) Code(c *xdr.Coder) {
	a.Handle.Code(c)
	c.Uint32(&a.Mask)
	a.Access.code(c, a.Mask&ACLAccess != 0, 0, 0, 0)
	a.Default.code(c, a.Mask&ACLDefault != 0, aceDefault, 0, 0)
}

// SetACLRes is SETACL3res.
type SetACLRes struct {
	Status Status
	Attr   OptAttr
}

func (r *SetACLRes) Code(c *xdr.Coder) {
	xdr.Word(c, &r.Status)
	r.Attr.Code(c)
}

// ACLMask reports whether a mask has no bits but those that there are.
func ACLMask(mask uint32) bool { return mask&^aclAll == 0 }
