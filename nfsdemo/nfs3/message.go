package nfs3

import (
	"math"

	"github.com/stag-rdma/stag/xdr"
)

// Result is a message that begins with a status: all results but that of NULL.
type Result interface {
	xdr.Message
	// Stat returns where the status is.
	Stat() *Status
}

// Void is the arguments and results of NULL.
type Void struct{}

func (*Void) Code(*xdr.Coder) {}

// HandleArgs is the arguments of the procedures that take only a file handle.
type HandleArgs struct {
	Handle FileHandle
}

// These procedures.
type (
	GetAttrArgs  = HandleArgs // GETATTR3args
	ReadLinkArgs = HandleArgs // READLINK3args
	FSStatArgs   = HandleArgs // FSSTAT3args
	FSInfoArgs   = HandleArgs // FSINFO3args
	PathConfArgs = HandleArgs // PATHCONF3args
)

func (a *HandleArgs) Code(c *xdr.Coder) { a.Handle.Code(c) }

// DirOpArgs is a diropargs3: a name in a directory (RFC 1813 Section 2.6).
type DirOpArgs struct {
	Dir  FileHandle
	Name string
}

// The procedures that take nothing else.
type (
	LookupArgs = DirOpArgs // LOOKUP3args
	RemoveArgs = DirOpArgs // REMOVE3args (RFC 1813 Section 3.3.12)
	RmdirArgs  = DirOpArgs // RMDIR3args (RFC 1813 Section 3.3.13)
)

// Code says string<> of the name, as RFC 1813 does, so only the input limits its length. A name too long for any file
// system is decoded, and then refused with NFS3ERR_NAMETOOLONG.
func (a *DirOpArgs) Code(c *xdr.Coder) {
	a.Dir.Code(c)
	c.String(&a.Name, math.MaxInt)
}

// WccRes is a result with a status, and the wcc_data of one object in both arms.
type WccRes struct {
	Status Status
	Wcc    Wcc
}

// The procedures with such results.
type (
	SetAttrRes = WccRes // SETATTR3res: of the object
	RemoveRes  = WccRes // REMOVE3res: of the directory
	RmdirRes   = WccRes // RMDIR3res: of the directory
)

func (r *WccRes) Code(c *xdr.Coder) {
	xdr.Word(c, &r.Status)
	r.Wcc.Code(c)
}

func (r *WccRes) Stat() *Status { return &r.Status }

// GetAttrRes is GETATTR3res (RFC 1813 Section 3.3.1).
type GetAttrRes struct {
	Status Status
	Attr   Attr // with OK
}

func (r *GetAttrRes) Code(c *xdr.Coder) {
	if xdr.Word(c, &r.Status) == OK {
		r.Attr.Code(c)
	}
}

func (r *GetAttrRes) Stat() *Status { return &r.Status }

// SetAttrArgs is SETATTR3args (RFC 1813 Section 3.3.2).
type SetAttrArgs struct {
	Handle FileHandle
	Attr   SetAttr
	Guard  bool // the file must have Ctime, otherwise NFS3ERR_NOT_SYNC
	Ctime  Time
}

func (a *SetAttrArgs) Code(c *xdr.Coder) {
	a.Handle.Code(c)
	a.Attr.Code(c)
	if c.Bool(&a.Guard) {
		a.Ctime.Code(c)
	}
}

// LookupRes is LOOKUP3res (RFC 1813 Section 3.3.3).
type LookupRes struct {
	Status  Status
	Handle  FileHandle // with OK
	Attr    OptAttr    // of the object, with OK
	DirAttr OptAttr    // of the directory
}

func (r *LookupRes) Code(c *xdr.Coder) {
	if xdr.Word(c, &r.Status) == OK {
		r.Handle.Code(c)
		r.Attr.Code(c)
	}
	r.DirAttr.Code(c)
}

func (r *LookupRes) Stat() *Status { return &r.Status }

// AccessArgs is ACCESS3args (RFC 1813 Section 3.3.4).
type AccessArgs struct {
	Handle FileHandle
	Access Access // the rights asked about
}

func (a *AccessArgs) Code(c *xdr.Coder) {
	a.Handle.Code(c)
	xdr.Word(c, &a.Access)
}

// AccessRes is ACCESS3res.
type AccessRes struct {
	Status Status
	Attr   OptAttr
	Access Access // granted, with OK
}

func (r *AccessRes) Code(c *xdr.Coder) {
	xdr.Word(c, &r.Status)
	r.Attr.Code(c)
	if r.Status == OK {
		xdr.Word(c, &r.Access)
	}
}

func (r *AccessRes) Stat() *Status { return &r.Status }

// CreateArgs is CREATE3args (RFC 1813 Section 3.3.8).
type CreateArgs struct {
	Where DirOpArgs
	Mode  CreateMode
	Attr  SetAttr    // with Unchecked and Guarded
	Verf  CreateVerf // with Exclusive
}

func (a *CreateArgs) Code(c *xdr.Coder) {
	a.Where.Code(c)
	if xdr.Enum(c, &a.Mode, Unchecked, Exclusive) == Exclusive {
		c.Fixed(a.Verf[:])
	} else {
		a.Attr.Code(c)
	}
}

// MkdirArgs is MKDIR3args (RFC 1813 Section 3.3.9).
type MkdirArgs struct {
	Where DirOpArgs
	Attr  SetAttr
}

func (a *MkdirArgs) Code(c *xdr.Coder) {
	a.Where.Code(c)
	a.Attr.Code(c)
}

// MknodArgs is MKNOD3args (RFC 1813 Section 3.3.11).
type MknodArgs struct {
	Where DirOpArgs
	Type  FileType // types other than these four have no more fields, and get NFS3ERR_BADTYPE
	Attr  SetAttr  // with TypeChr, TypeBlk, TypeSock and TypeFIFO
	Rdev  Device   // with TypeChr and TypeBlk
}

func (a *MknodArgs) Code(c *xdr.Coder) {
	a.Where.Code(c)
	switch xdr.Enum(c, &a.Type, TypeReg, TypeFIFO) {
	case TypeChr, TypeBlk:
		a.Attr.Code(c)
		a.Rdev.Code(c)
	case TypeSock, TypeFIFO:
		a.Attr.Code(c)
	case TypeReg, TypeDir, TypeLnk:
	}
}

// NewRes is the result of the procedures that make an object.
type NewRes struct {
	Status Status
	Handle OptHandle // with OK
	Attr   OptAttr   // with OK
	DirWcc Wcc
}

// The results of four procedures have the same shape.
type (
	CreateRes  = NewRes // CREATE3res
	MkdirRes   = NewRes // MKDIR3res
	SymlinkRes = NewRes // SYMLINK3res
	MknodRes   = NewRes // MKNOD3res
)

func (r *NewRes) Code(c *xdr.Coder) {
	if xdr.Word(c, &r.Status) == OK {
		r.Handle.Code(c)
		r.Attr.Code(c)
	}
	r.DirWcc.Code(c)
}

func (r *NewRes) Stat() *Status { return &r.Status }

// RenameArgs is RENAME3args (RFC 1813 Section 3.3.14).
type RenameArgs struct {
	From DirOpArgs
	To   DirOpArgs
}

func (a *RenameArgs) Code(c *xdr.Coder) {
	a.From.Code(c)
	a.To.Code(c)
}

// RenameRes is RENAME3res: the same fields in both arms.
type RenameRes struct {
	Status  Status
	FromWcc Wcc
	ToWcc   Wcc
}

func (r *RenameRes) Code(c *xdr.Coder) {
	xdr.Word(c, &r.Status)
	r.FromWcc.Code(c)
	r.ToWcc.Code(c)
}

func (r *RenameRes) Stat() *Status { return &r.Status }

// LinkArgs is LINK3args (RFC 1813 Section 3.3.15).
type LinkArgs struct {
	Handle FileHandle // of the existing file
	Link   DirOpArgs  // the new name
}

func (a *LinkArgs) Code(c *xdr.Coder) {
	a.Handle.Code(c)
	a.Link.Code(c)
}

// LinkRes is LINK3res: the same fields in both arms.
type LinkRes struct {
	Status Status
	Attr   OptAttr // of the file
	DirWcc Wcc
}

func (r *LinkRes) Code(c *xdr.Coder) {
	xdr.Word(c, &r.Status)
	r.Attr.Code(c)
	r.DirWcc.Code(c)
}

func (r *LinkRes) Stat() *Status { return &r.Status }

// FSStatRes is FSSTAT3res (RFC 1813 Section 3.3.18). All but Status and Attr come with OK.
type FSStatRes struct {
	Status     Status
	Attr       OptAttr
	TotalBytes uint64 // octets in total
	FreeBytes  uint64 // octets free
	AvailBytes uint64 // octets that the caller may use
	TotalFiles uint64 // file slots in total
	FreeFiles  uint64
	AvailFiles uint64
	Invarsec   uint32 // seconds during which this is not expected to change
}

func (r *FSStatRes) Code(c *xdr.Coder) {
	xdr.Word(c, &r.Status)
	r.Attr.Code(c)
	if r.Status != OK {
		return
	}
	c.Uint64(&r.TotalBytes, &r.FreeBytes, &r.AvailBytes, &r.TotalFiles, &r.FreeFiles, &r.AvailFiles)
	c.Uint32(&r.Invarsec)
}

func (r *FSStatRes) Stat() *Status { return &r.Status }

// FSInfoRes is FSINFO3res (RFC 1813 Section 3.3.19). All but Status and Attr come with OK;
// sizes are octets.
type FSInfoRes struct {
	Status      Status
	Attr        OptAttr
	RTMax       uint32 // largest READ
	RTPref      uint32 // preferred READ
	RTMult      uint32 // READ counts should be multiples of this
	WTMax       uint32 // largest WRITE
	WTPref      uint32
	WTMult      uint32
	DTPref      uint32 // preferred READDIR
	MaxFileSize uint64
	TimeDelta   Time   // granularity of times
	Properties  uint32 // Prop bits
}

func (r *FSInfoRes) Code(c *xdr.Coder) {
	xdr.Word(c, &r.Status)
	r.Attr.Code(c)
	if r.Status != OK {
		return
	}
	c.Uint32(&r.RTMax, &r.RTPref, &r.RTMult, &r.WTMax, &r.WTPref, &r.WTMult, &r.DTPref)
	c.Uint64(&r.MaxFileSize)
	r.TimeDelta.Code(c)
	c.Uint32(&r.Properties)
}

func (r *FSInfoRes) Stat() *Status { return &r.Status }

// PathConfRes is PATHCONF3res (RFC 1813 Section 3.3.20). All but Status and Attr come
// with OK.
type PathConfRes struct {
	Status          Status
	Attr            OptAttr
	LinkMax         uint32 // most hard links of a file
	NameMax         uint32 // longest name, octets
	NoTrunc         bool   // longer names are refused, not truncated
	ChownRestricted bool   // only a privileged user can change owners
	CaseInsensitive bool
	CasePreserving  bool
}

func (r *PathConfRes) Code(c *xdr.Coder) {
	xdr.Word(c, &r.Status)
	r.Attr.Code(c)
	if r.Status != OK {
		return
	}
	c.Uint32(&r.LinkMax, &r.NameMax)
	for _, v := range [...]*bool{&r.NoTrunc, &r.ChownRestricted, &r.CaseInsensitive, &r.CasePreserving} {
		c.Bool(v)
	}
}

func (r *PathConfRes) Stat() *Status { return &r.Status }

// CommitArgs is COMMIT3args (RFC 1813 Section 3.3.21).
type CommitArgs struct {
	Handle FileHandle
	Offset uint64 // octets
	Count  uint32 // octets; 0: to the end of the file
}

func (a *CommitArgs) Code(c *xdr.Coder) {
	a.Handle.Code(c)
	c.Uint64(&a.Offset)
	c.Uint32(&a.Count)
}

// CommitRes is COMMIT3res.
type CommitRes struct {
	Status Status
	Wcc    Wcc
	Verf   WriteVerf // with OK
}

func (r *CommitRes) Code(c *xdr.Coder) {
	xdr.Word(c, &r.Status)
	r.Wcc.Code(c)
	if r.Status == OK {
		c.Fixed(r.Verf[:])
	}
}

func (r *CommitRes) Stat() *Status { return &r.Status }
