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

// append appends an ACL, or only its length. One of three entries, which is the mode, gets a mask like the group, since
// Solaris has no shorter ones; parse takes it away again.
func (a ACL) append(b []byte, entries bool, flag, uid, gid uint32) []byte {
	if len(a) == 3 {
		a = append(slices.Clip(a), ACE{Tag: ACEMask, Perm: a[max(a.find(ACEGroupObj), 0)].Perm})
		a.sort()
	}
	b = xdr.AppendUint32(b, uint32(len(a)))
	if !entries {
		return xdr.AppendUint32(b, 0)
	}
	b = xdr.AppendUint32(b, uint32(len(a)))
	for _, e := range a {
		switch e.Tag {
		case ACEUserObj:
			e.ID = uid
		case ACEGroupObj:
			e.ID = gid
		case ACEMask, ACEOther:
			e.ID = 0
		}
		b = xdr.AppendUint32(xdr.AppendUint32(xdr.AppendUint32(b, e.Tag|flag), e.ID), e.Perm)
	}
	return b
}

func (a ACL) sort() {
	slices.SortStableFunc(a, func(x, y ACE) int { return cmp.Or(cmp.Compare(x.Tag, y.Tag), cmp.Compare(x.ID, y.ID)) })
}

func (a ACL) find(tag uint32) int {
	return slices.IndexFunc(a, func(e ACE) bool { return e.Tag == tag })
}

// parse reads an ACL. The count before the entries is that of those that there are, sent or not.
func (a *ACL) parse(d *xdr.Decoder) {
	*a = nil
	d.Uint32()
	for range d.Count(MaxACE, 12) {
		e := ACE{Tag: d.Uint32() &^ aceDefault, ID: d.Uint32(), Perm: d.Uint32() & 7}
		switch e.Tag {
		case ACEUser, ACEGroup:
		case ACEUserObj, ACEGroupObj, ACEMask, ACEOther:
			e.ID = 0
		default:
			d.Fail(errTag)
			return
		}
		*a = append(*a, e)
	}
	a.sort()
	group, mask := a.find(ACEGroupObj), a.find(ACEMask)
	if len(*a) == 4 && group >= 0 && mask >= 0 && (*a)[mask].Perm == (*a)[group].Perm {
		*a = slices.Delete(*a, mask, mask+1)
	}
}

var errTag = errors.New("no tag of an entry of an ACL")

// GetACLArgs is GETACL3args.
type GetACLArgs struct {
	Handle FileHandle
	Mask   uint32
}

// Append appends the GETACL3args.
func (a *GetACLArgs) Append(b []byte) []byte {
	return xdr.AppendUint32(xdr.AppendOpaque(b, a.Handle), a.Mask)
}

// Parse reads the GETACL3args; the handle is lent.
func (a *GetACLArgs) Parse(d *xdr.Decoder) error {
	a.Handle = d.Opaque(MaxHandle)
	a.Mask = d.Uint32()
	return d.ErrIn("GETACL3args")
}

// GetACLRes is GETACL3res.
type GetACLRes struct {
	Status          Status
	Attr            OptAttr
	Mask            uint32 // that of the arguments
	Access, Default ACL
}

// Stat returns the status.
func (r *GetACLRes) Stat() Status { return r.Status }

// Append appends the GETACL3res. Of an ACL that Mask does not ask for, only the length is sent.
func (r *GetACLRes) Append(b []byte) []byte {
	b = xdr.Encode(xdr.AppendUint32(b, uint32(r.Status)), &r.Attr, (*OptAttr).code)
	if r.Status != OK {
		return b
	}
	b = xdr.AppendUint32(b, r.Mask)
	b = r.Access.append(b, r.Mask&ACLAccess != 0, 0, r.Attr.Attr.UID, r.Attr.Attr.GID)
	return r.Default.append(b, r.Mask&ACLDefault != 0, aceDefault, r.Attr.Attr.UID, r.Attr.Attr.GID)
}

// Parse reads the GETACL3res.
func (r *GetACLRes) Parse(d *xdr.Decoder) error {
	*r = GetACLRes{Status: Status(d.Uint32())}
	if xdr.Decode(d, &r.Attr, (*OptAttr).code); r.Status == OK {
		r.Mask = d.Uint32()
		r.Access.parse(d)
		r.Default.parse(d)
	}
	return d.ErrIn("GETACL3res")
}

// SetACLArgs is SETACL3args: the ACLs of Mask replace those of the file; one without entries takes its away.
type SetACLArgs struct {
	Handle          FileHandle
	Mask            uint32
	Access, Default ACL
}

// Append appends the SETACL3args.
func (a *SetACLArgs) Append(b []byte) []byte {
	b = xdr.AppendUint32(xdr.AppendOpaque(b, a.Handle), a.Mask)
	b = a.Access.append(b, a.Mask&ACLAccess != 0, 0, 0, 0)
	return a.Default.append(b, a.Mask&ACLDefault != 0, aceDefault, 0, 0)
}

// Parse reads the SETACL3args; the handle is lent.
func (a *SetACLArgs) Parse(d *xdr.Decoder) error {
	a.Handle = d.Opaque(MaxHandle)
	a.Mask = d.Uint32()
	a.Access.parse(d)
	a.Default.parse(d)
	return d.ErrIn("SETACL3args")
}

// SetACLRes is SETACL3res.
type SetACLRes struct {
	Status Status
	Attr   OptAttr
}

// Stat returns the status.
func (r *SetACLRes) Stat() Status { return r.Status }

// Append appends the SETACL3res.
func (r *SetACLRes) Append(b []byte) []byte {
	return xdr.Encode(xdr.AppendUint32(b, uint32(r.Status)), &r.Attr, (*OptAttr).code)
}

// Parse reads the SETACL3res.
func (r *SetACLRes) Parse(d *xdr.Decoder) error {
	r.Status = Status(d.Uint32())
	xdr.Decode(d, &r.Attr, (*OptAttr).code)
	return d.ErrIn("SETACL3res")
}

// ACLMask reports whether a mask has no bits but those that there are.
func ACLMask(mask uint32) bool { return mask&^aclAll == 0 }
