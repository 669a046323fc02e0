package nfs3

import (
	"math"

	"github.com/stag-rdma/stag/xdr"
)

// Message is implemented by the arguments and results of every procedure.
type Message interface {
	// Append appends the XDR encoding to b and returns it. It copies everything.
	Append(b []byte) []byte
	// Parse reads the message from d. The error is a *xdr.DecodeError. File handles and
	// data are views of d's input; names and paths are copies.
	Parse(d *xdr.Decoder) error
}

// Result is a Message that begins with a status: all results but that of NULL.
type Result interface {
	Message
	// Stat returns the status.
	Stat() Status
}

// Void is the arguments and results of NULL.
type Void struct{}

func (*Void) Append(b []byte) []byte   { return b }
func (*Void) Parse(*xdr.Decoder) error { return nil }

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

func (a *HandleArgs) code(c *xdr.Coder)      { xdr.Opaque(c, &a.Handle, MaxHandle) }
func (a *HandleArgs) Append(b []byte) []byte { return xdr.Encode(b, a, (*HandleArgs).code) }

func (a *HandleArgs) Parse(d *xdr.Decoder) error {
	return xdr.Decode(d, a, (*HandleArgs).code).ErrIn("nfs_fh3")
}

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

// code says string<> of the name, as RFC 1813 does, so only the input limits its length. A name too long for any file
// system is decoded, and then refused with NFS3ERR_NAMETOOLONG.
func (a *DirOpArgs) code(c *xdr.Coder) {
	xdr.Opaque(c, &a.Dir, MaxHandle)
	c.String(&a.Name, math.MaxInt)
}

func (a *DirOpArgs) Append(b []byte) []byte { return xdr.Encode(b, a, (*DirOpArgs).code) }

func (a *DirOpArgs) Parse(d *xdr.Decoder) error {
	return xdr.Decode(d, a, (*DirOpArgs).code).ErrIn("diropargs3")
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

func (r *WccRes) code(c *xdr.Coder) {
	xdr.Word(c, &r.Status)
	r.Wcc.code(c)
}

func (r *WccRes) Stat() Status           { return r.Status }
func (r *WccRes) Append(b []byte) []byte { return xdr.Encode(b, r, (*WccRes).code) }

func (r *WccRes) Parse(d *xdr.Decoder) error {
	return xdr.Decode(d, r, (*WccRes).code).ErrIn("wcc_data")
}

// GetAttrRes is GETATTR3res (RFC 1813 Section 3.3.1).
type GetAttrRes struct {
	Status Status
	Attr   Attr // with OK
}

func (r *GetAttrRes) code(c *xdr.Coder) {
	if xdr.Word(c, &r.Status) == OK {
		r.Attr.code(c)
	}
}

func (r *GetAttrRes) Stat() Status           { return r.Status }
func (r *GetAttrRes) Append(b []byte) []byte { return xdr.Encode(b, r, (*GetAttrRes).code) }

func (r *GetAttrRes) Parse(d *xdr.Decoder) error {
	return xdr.Decode(d, r, (*GetAttrRes).code).ErrIn("GETATTR3res")
}

// SetAttrArgs is SETATTR3args (RFC 1813 Section 3.3.2).
type SetAttrArgs struct {
	Handle FileHandle
	Attr   SetAttr
	Guard  bool // the file must have Ctime, otherwise NFS3ERR_NOT_SYNC
	Ctime  Time
}

func (a *SetAttrArgs) code(c *xdr.Coder) {
	xdr.Opaque(c, &a.Handle, MaxHandle)
	a.Attr.code(c)
	if c.Bool(&a.Guard) {
		a.Ctime.code(c)
	}
}

func (a *SetAttrArgs) Append(b []byte) []byte { return xdr.Encode(b, a, (*SetAttrArgs).code) }

func (a *SetAttrArgs) Parse(d *xdr.Decoder) error {
	return xdr.Decode(d, a, (*SetAttrArgs).code).ErrIn("SETATTR3args")
}

// LookupRes is LOOKUP3res (RFC 1813 Section 3.3.3).
type LookupRes struct {
	Status  Status
	Handle  FileHandle // with OK
	Attr    OptAttr    // of the object, with OK
	DirAttr OptAttr    // of the directory
}

func (r *LookupRes) code(c *xdr.Coder) {
	if xdr.Word(c, &r.Status) == OK {
		xdr.Opaque(c, &r.Handle, MaxHandle)
		r.Attr.code(c)
	}
	r.DirAttr.code(c)
}

func (r *LookupRes) Stat() Status           { return r.Status }
func (r *LookupRes) Append(b []byte) []byte { return xdr.Encode(b, r, (*LookupRes).code) }

func (r *LookupRes) Parse(d *xdr.Decoder) error {
	return xdr.Decode(d, r, (*LookupRes).code).ErrIn("LOOKUP3res")
}

// AccessArgs is ACCESS3args (RFC 1813 Section 3.3.4).
type AccessArgs struct {
	Handle FileHandle
	Access Access // the rights asked about
}

func (a *AccessArgs) code(c *xdr.Coder) {
	xdr.Opaque(c, &a.Handle, MaxHandle)
	xdr.Word(c, &a.Access)
}

func (a *AccessArgs) Append(b []byte) []byte { return xdr.Encode(b, a, (*AccessArgs).code) }

func (a *AccessArgs) Parse(d *xdr.Decoder) error {
	return xdr.Decode(d, a, (*AccessArgs).code).ErrIn("ACCESS3args")
}

// AccessRes is ACCESS3res.
type AccessRes struct {
	Status Status
	Attr   OptAttr
	Access Access // granted, with OK
}

func (r *AccessRes) code(c *xdr.Coder) {
	xdr.Word(c, &r.Status)
	r.Attr.code(c)
	if r.Status == OK {
		xdr.Word(c, &r.Access)
	}
}

func (r *AccessRes) Stat() Status           { return r.Status }
func (r *AccessRes) Append(b []byte) []byte { return xdr.Encode(b, r, (*AccessRes).code) }

func (r *AccessRes) Parse(d *xdr.Decoder) error {
	return xdr.Decode(d, r, (*AccessRes).code).ErrIn("ACCESS3res")
}

// CreateArgs is CREATE3args (RFC 1813 Section 3.3.8).
type CreateArgs struct {
	Where DirOpArgs
	Mode  CreateMode
	Attr  SetAttr    // with Unchecked and Guarded
	Verf  CreateVerf // with Exclusive
}

func (a *CreateArgs) code(c *xdr.Coder) {
	a.Where.code(c)
	if xdr.Enum(c, &a.Mode, Unchecked, Exclusive) == Exclusive {
		c.Fixed(a.Verf[:])
	} else {
		a.Attr.code(c)
	}
}

func (a *CreateArgs) Append(b []byte) []byte { return xdr.Encode(b, a, (*CreateArgs).code) }

func (a *CreateArgs) Parse(d *xdr.Decoder) error {
	return xdr.Decode(d, a, (*CreateArgs).code).ErrIn("CREATE3args")
}

// MkdirArgs is MKDIR3args (RFC 1813 Section 3.3.9).
type MkdirArgs struct {
	Where DirOpArgs
	Attr  SetAttr
}

func (a *MkdirArgs) code(c *xdr.Coder) {
	a.Where.code(c)
	a.Attr.code(c)
}

func (a *MkdirArgs) Append(b []byte) []byte { return xdr.Encode(b, a, (*MkdirArgs).code) }

func (a *MkdirArgs) Parse(d *xdr.Decoder) error {
	return xdr.Decode(d, a, (*MkdirArgs).code).ErrIn("MKDIR3args")
}

// MknodArgs is MKNOD3args (RFC 1813 Section 3.3.11).
type MknodArgs struct {
	Where DirOpArgs
	Type  FileType // types other than these four have no more fields, and get NFS3ERR_BADTYPE
	Attr  SetAttr  // with TypeChr, TypeBlk, TypeSock and TypeFIFO
	Rdev  Device   // with TypeChr and TypeBlk
}

func (a *MknodArgs) code(c *xdr.Coder) {
	a.Where.code(c)
	switch xdr.Enum(c, &a.Type, TypeReg, TypeFIFO) {
	case TypeChr, TypeBlk:
		a.Attr.code(c)
		a.Rdev.code(c)
	case TypeSock, TypeFIFO:
		a.Attr.code(c)
	case TypeReg, TypeDir, TypeLnk:
	}
}

func (a *MknodArgs) Append(b []byte) []byte { return xdr.Encode(b, a, (*MknodArgs).code) }

func (a *MknodArgs) Parse(d *xdr.Decoder) error {
	return xdr.Decode(d, a, (*MknodArgs).code).ErrIn("MKNOD3args")
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

func (r *NewRes) code(c *xdr.Coder) {
	if xdr.Word(c, &r.Status) == OK {
		r.Handle.code(c)
		r.Attr.code(c)
	}
	r.DirWcc.code(c)
}

func (r *NewRes) Stat() Status           { return r.Status }
func (r *NewRes) Append(b []byte) []byte { return xdr.Encode(b, r, (*NewRes).code) }

func (r *NewRes) Parse(d *xdr.Decoder) error {
	return xdr.Decode(d, r, (*NewRes).code).ErrIn("CREATE3res")
}

// RenameArgs is RENAME3args (RFC 1813 Section 3.3.14).
type RenameArgs struct {
	From DirOpArgs
	To   DirOpArgs
}

func (a *RenameArgs) code(c *xdr.Coder) {
	a.From.code(c)
	a.To.code(c)
}

func (a *RenameArgs) Append(b []byte) []byte { return xdr.Encode(b, a, (*RenameArgs).code) }

func (a *RenameArgs) Parse(d *xdr.Decoder) error {
	return xdr.Decode(d, a, (*RenameArgs).code).ErrIn("RENAME3args")
}

// RenameRes is RENAME3res: the same fields in both arms.
type RenameRes struct {
	Status  Status
	FromWcc Wcc
	ToWcc   Wcc
}

func (r *RenameRes) code(c *xdr.Coder) {
	xdr.Word(c, &r.Status)
	r.FromWcc.code(c)
	r.ToWcc.code(c)
}

func (r *RenameRes) Stat() Status           { return r.Status }
func (r *RenameRes) Append(b []byte) []byte { return xdr.Encode(b, r, (*RenameRes).code) }

func (r *RenameRes) Parse(d *xdr.Decoder) error {
	return xdr.Decode(d, r, (*RenameRes).code).ErrIn("RENAME3res")
}

// LinkArgs is LINK3args (RFC 1813 Section 3.3.15).
type LinkArgs struct {
	Handle FileHandle // of the existing file
	Link   DirOpArgs  // the new name
}

func (a *LinkArgs) code(c *xdr.Coder) {
	xdr.Opaque(c, &a.Handle, MaxHandle)
	a.Link.code(c)
}

func (a *LinkArgs) Append(b []byte) []byte { return xdr.Encode(b, a, (*LinkArgs).code) }

func (a *LinkArgs) Parse(d *xdr.Decoder) error {
	return xdr.Decode(d, a, (*LinkArgs).code).ErrIn("LINK3args")
}

// LinkRes is LINK3res: the same fields in both arms.
type LinkRes struct {
	Status Status
	Attr   OptAttr // of the file
	DirWcc Wcc
}

func (r *LinkRes) code(c *xdr.Coder) {
	xdr.Word(c, &r.Status)
	r.Attr.code(c)
	r.DirWcc.code(c)
}

func (r *LinkRes) Stat() Status           { return r.Status }
func (r *LinkRes) Append(b []byte) []byte { return xdr.Encode(b, r, (*LinkRes).code) }

func (r *LinkRes) Parse(d *xdr.Decoder) error {
	return xdr.Decode(d, r, (*LinkRes).code).ErrIn("LINK3res")
}

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

func (r *FSStatRes) code(c *xdr.Coder) {
	xdr.Word(c, &r.Status)
	r.Attr.code(c)
	if r.Status != OK {
		return
	}
	c.Uint64(&r.TotalBytes, &r.FreeBytes, &r.AvailBytes, &r.TotalFiles, &r.FreeFiles, &r.AvailFiles)
	c.Uint32(&r.Invarsec)
}

func (r *FSStatRes) Stat() Status           { return r.Status }
func (r *FSStatRes) Append(b []byte) []byte { return xdr.Encode(b, r, (*FSStatRes).code) }

func (r *FSStatRes) Parse(d *xdr.Decoder) error {
	return xdr.Decode(d, r, (*FSStatRes).code).ErrIn("FSSTAT3res")
}

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

func (r *FSInfoRes) code(c *xdr.Coder) {
	xdr.Word(c, &r.Status)
	r.Attr.code(c)
	if r.Status != OK {
		return
	}
	c.Uint32(&r.RTMax, &r.RTPref, &r.RTMult, &r.WTMax, &r.WTPref, &r.WTMult, &r.DTPref)
	c.Uint64(&r.MaxFileSize)
	r.TimeDelta.code(c)
	c.Uint32(&r.Properties)
}

func (r *FSInfoRes) Stat() Status           { return r.Status }
func (r *FSInfoRes) Append(b []byte) []byte { return xdr.Encode(b, r, (*FSInfoRes).code) }

func (r *FSInfoRes) Parse(d *xdr.Decoder) error {
	return xdr.Decode(d, r, (*FSInfoRes).code).ErrIn("FSINFO3res")
}

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

func (r *PathConfRes) code(c *xdr.Coder) {
	xdr.Word(c, &r.Status)
	r.Attr.code(c)
	if r.Status != OK {
		return
	}
	c.Uint32(&r.LinkMax, &r.NameMax)
	for _, v := range [...]*bool{&r.NoTrunc, &r.ChownRestricted, &r.CaseInsensitive, &r.CasePreserving} {
		c.Bool(v)
	}
}

func (r *PathConfRes) Stat() Status           { return r.Status }
func (r *PathConfRes) Append(b []byte) []byte { return xdr.Encode(b, r, (*PathConfRes).code) }

func (r *PathConfRes) Parse(d *xdr.Decoder) error {
	return xdr.Decode(d, r, (*PathConfRes).code).ErrIn("PATHCONF3res")
}

// CommitArgs is COMMIT3args (RFC 1813 Section 3.3.21).
type CommitArgs struct {
	Handle FileHandle
	Offset uint64 // octets
	Count  uint32 // octets; 0: to the end of the file
}

func (a *CommitArgs) code(c *xdr.Coder) {
	xdr.Opaque(c, &a.Handle, MaxHandle)
	c.Uint64(&a.Offset)
	c.Uint32(&a.Count)
}

func (a *CommitArgs) Append(b []byte) []byte { return xdr.Encode(b, a, (*CommitArgs).code) }

func (a *CommitArgs) Parse(d *xdr.Decoder) error {
	return xdr.Decode(d, a, (*CommitArgs).code).ErrIn("COMMIT3args")
}

// CommitRes is COMMIT3res.
type CommitRes struct {
	Status Status
	Wcc    Wcc
	Verf   WriteVerf // with OK
}

func (r *CommitRes) code(c *xdr.Coder) {
	xdr.Word(c, &r.Status)
	r.Wcc.code(c)
	if r.Status == OK {
		c.Fixed(r.Verf[:])
	}
}

func (r *CommitRes) Stat() Status           { return r.Status }
func (r *CommitRes) Append(b []byte) []byte { return xdr.Encode(b, r, (*CommitRes).code) }

func (r *CommitRes) Parse(d *xdr.Decoder) error {
	return xdr.Decode(d, r, (*CommitRes).code).ErrIn("COMMIT3res")
}
