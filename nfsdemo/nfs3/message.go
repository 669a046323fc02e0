package nfs3

import (
	"math"
	"time"

	"github.com/stag-rdma/stag/xdr"
)

// Time is an nfstime3: seconds since 1970 and nanoseconds, 4 octets each
// (RFC 1813 Section 2.5). Times before 1970 and after 2106 do not fit.
type Time struct {
	Sec, Nsec uint32
}

// TimeOf converts t. A time that does not fit becomes the nearest one that does.
func TimeOf(t time.Time) Time { return UnixTime(t.Unix(), int64(t.Nanosecond())) }

// UnixTime converts seconds and nanoseconds since 1970. A time that does not fit becomes the
// nearest one that does.
func UnixTime(sec, nsec int64) Time {
	switch {
	case sec < 0:
		return Time{}
	case sec > 1<<32-1:
		return Time{Sec: 1<<32 - 1, Nsec: 999999999}
	}
	return Time{Sec: uint32(sec), Nsec: uint32(nsec)}
}

// Time returns t as a time.Time.
func (t Time) Time() time.Time { return time.Unix(int64(t.Sec), int64(t.Nsec)) }

func (t *Time) Code(c *xdr.Coder) { c.Uint32(&t.Sec, &t.Nsec) }

// Attr is a fattr3, 84 octets (RFC 1813 Section 2.5).
//
//	 0 type    4 mode   8 nlink  12 uid     16 gid     20 size    28 used
//	36 rdev   44 fsid  52 fileid 60 atime   68 mtime   76 ctime
type Attr struct {
	Type   FileType
	Mode   uint32 // permission bits with set-id and sticky, 07777
	Nlink  uint32
	UID    uint32
	GID    uint32
	Size   uint64 // octets
	Used   uint64 // octets on disk
	Rdev   Device // of TypeChr and TypeBlk
	FSID   uint64
	FileID uint64
	Atime  Time
	Mtime  Time
	Ctime  Time
}

// Device is a specdata3: major and minor number.
type Device struct{ Major, Minor uint32 }

func (v *Device) Code(c *xdr.Coder) { c.Uint32(&v.Major, &v.Minor) }

func (a *Attr) Code(c *xdr.Coder) {
	xdr.Enum(c, &a.Type, TypeReg, TypeFIFO)
	c.Uint32(&a.Mode, &a.Nlink, &a.UID, &a.GID)
	c.Uint64(&a.Size, &a.Used)
	a.Rdev.Code(c)
	c.Uint64(&a.FSID, &a.FileID)
	c.Uint32(&a.Atime.Sec, &a.Atime.Nsec, &a.Mtime.Sec, &a.Mtime.Nsec, &a.Ctime.Sec, &a.Ctime.Nsec)
}

// Wcc returns the part of a that wcc_data carries in "before".
func (a *Attr) Wcc() WccAttr { return WccAttr{Size: a.Size, Mtime: a.Mtime, Ctime: a.Ctime} }

// OptAttr is a post_op_attr: attributes that a server may omit (RFC 1813 Section 2.6). It takes 4 or 88 octets.
type OptAttr struct {
	Present bool
	Attr    Attr
}

// SomeAttr returns a as a present post_op_attr.
func SomeAttr(a *Attr) OptAttr { return OptAttr{Present: true, Attr: *a} }

func (o *OptAttr) Code(c *xdr.Coder) {
	if c.Bool(&o.Present) {
		o.Attr.Code(c)
	}
}

// WccAttr is a wcc_attr, 24 octets.
type WccAttr struct {
	Size  uint64
	Mtime Time
	Ctime Time
}

// OptWcc is a pre_op_attr.
type OptWcc struct {
	Present bool
	Attr    WccAttr
}

// Wcc is a wcc_data, weak cache consistency: the state before and after an operation
// (RFC 1813 Section 2.6). Before is present only if it was taken atomically with it. It takes 8 to 116 octets.
type Wcc struct {
	Before OptWcc
	After  OptAttr
}

func (w *Wcc) Code(c *xdr.Coder) {
	if c.Bool(&w.Before.Present) {
		c.Uint64(&w.Before.Attr.Size)
		w.Before.Attr.Mtime.Code(c)
		w.Before.Attr.Ctime.Code(c)
	}
	w.After.Code(c)
}

// OptHandle is a post_op_fh3.
type OptHandle struct {
	Present bool
	Handle  FileHandle
}

// SomeHandle returns h as a present post_op_fh3. It borrows h.
func SomeHandle(h FileHandle) OptHandle { return OptHandle{Present: true, Handle: h} }

func (o *OptHandle) Code(c *xdr.Coder) {
	if c.Bool(&o.Present) {
		o.Handle.Code(c)
	}
}

// SetAttr is a sattr3: the attributes to change, 24 to 60 octets (RFC 1813 Section 2.6).
// A value counts only if its Set field is true, a time only if its How is not DontChange.
type SetAttr struct {
	SetMode  bool
	SetUID   bool
	SetGID   bool
	SetSize  bool
	Mode     uint32
	UID      uint32
	GID      uint32
	Size     uint64
	AtimeHow TimeHow
	MtimeHow TimeHow
	Atime    Time // with ClientTime
	Mtime    Time // with ClientTime
}

// IsZero reports whether s changes nothing.
func (s *SetAttr) IsZero() bool {
	return !s.SetMode && !s.SetUID && !s.SetGID && !s.SetSize && s.AtimeHow == DontChange && s.MtimeHow == DontChange
}

func (s *SetAttr) Code(c *xdr.Coder) {
	if c.Bool(&s.SetMode) {
		c.Uint32(&s.Mode)
	}
	if c.Bool(&s.SetUID) {
		c.Uint32(&s.UID)
	}
	if c.Bool(&s.SetGID) {
		c.Uint32(&s.GID)
	}
	if c.Bool(&s.SetSize) {
		c.Uint64(&s.Size)
	}
	if xdr.Enum(c, &s.AtimeHow, DontChange, ClientTime) == ClientTime {
		s.Atime.Code(c)
	}
	if xdr.Enum(c, &s.MtimeHow, DontChange, ClientTime) == ClientTime {
		s.Mtime.Code(c)
	}
}

// This file has the four messages with an item that a transport may move apart from the rest. Head of each is what precedes the
// item, without the item's count word: who moves the item also writes and reads its length.

// ReadArgs is READ3args (RFC 1813 Section 3.3.6).
type ReadArgs struct {
	Handle FileHandle
	Offset uint64 // octets
	Count  uint32 // octets
}

func (a *ReadArgs) Code(c *xdr.Coder) {
	a.Handle.Code(c)
	c.Uint64(&a.Offset)
	c.Uint32(&a.Count)
}

// ReadRes is READ3res. The data are reducible.
type ReadRes struct {
	Status Status
	Attr   OptAttr
	Count  uint32 // octets read, with OK; the length of Data in a valid reply
	EOF    bool   // the read reached the end of the file, with OK
	Data   []byte // with OK; lent by Decode
}

type readHead ReadRes

func (r *readHead) Code(c *xdr.Coder) {
	xdr.Word(c, &r.Status)
	r.Attr.Code(c)
	if r.Status == OK {
		c.Uint32(&r.Count)
		c.Bool(&r.EOF)
	}
}

func (r *ReadRes) Code(c *xdr.Coder) {
	if (*readHead)(r).Code(c); r.Status == OK {
		c.Opaque(&r.Data, math.MaxInt)
	}
}

// Head is the message without its item.
func (r *ReadRes) Head() xdr.Message { return (*readHead)(r) }

func (r *ReadRes) Stat() *Status { return &r.Status }

// ReadLinkRes is READLINK3res (RFC 1813 Section 3.3.5). The path is reducible.
type ReadLinkRes struct {
	Status Status
	Attr   OptAttr
	Path   string // with OK
}

type readLinkHead ReadLinkRes

func (r *readLinkHead) Code(c *xdr.Coder) {
	xdr.Word(c, &r.Status)
	r.Attr.Code(c)
}

func (r *ReadLinkRes) Code(c *xdr.Coder) {
	if (*readLinkHead)(r).Code(c); r.Status == OK {
		c.String(&r.Path, math.MaxInt)
	}
}

// Head is the message without its item.
func (r *ReadLinkRes) Head() xdr.Message { return (*readLinkHead)(r) }

func (r *ReadLinkRes) Stat() *Status { return &r.Status }

// WriteArgs is WRITE3args (RFC 1813 Section 3.3.7). The data are reducible.
type WriteArgs struct {
	Handle FileHandle
	Offset uint64 // octets
	Count  uint32 // octets; must be the length of Data
	Stable StableHow
	Data   []byte // lent by Decode
}

type writeHead WriteArgs

func (a *writeHead) Code(c *xdr.Coder) {
	a.Handle.Code(c)
	c.Uint64(&a.Offset)
	c.Uint32(&a.Count)
	xdr.Enum(c, &a.Stable, Unstable, FileSync)
}

func (a *WriteArgs) Code(c *xdr.Coder) {
	(*writeHead)(a).Code(c)
	c.Opaque(&a.Data, math.MaxInt)
}

// Head is the message without its item.
func (a *WriteArgs) Head() xdr.Message { return (*writeHead)(a) }

// WriteRes is WRITE3res.
type WriteRes struct {
	Status    Status
	Wcc       Wcc
	Count     uint32    // octets written, with OK
	Committed StableHow // at least the stability asked for, with OK
	Verf      WriteVerf // with OK
}

func (r *WriteRes) Code(c *xdr.Coder) {
	xdr.Word(c, &r.Status)
	r.Wcc.Code(c)
	if r.Status == OK {
		c.Uint32(&r.Count)
		xdr.Enum(c, &r.Committed, Unstable, FileSync)
		c.Fixed(r.Verf[:])
	}
}

func (r *WriteRes) Stat() *Status { return &r.Status }

// SymlinkArgs is SYMLINK3args (RFC 1813 Section 3.3.10). The path is reducible.
type SymlinkArgs struct {
	Where DirOpArgs
	Attr  SetAttr
	Path  string // opaque to the server
}

type symlinkHead SymlinkArgs

func (a *symlinkHead) Code(c *xdr.Coder) {
	a.Where.Code(c)
	a.Attr.Code(c)
}

func (a *SymlinkArgs) Code(c *xdr.Coder) {
	(*symlinkHead)(a).Code(c)
	c.String(&a.Path, math.MaxInt)
}

// Head is the message without its item.
func (a *SymlinkArgs) Head() xdr.Message { return (*symlinkHead)(a) }

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

// ReadDirArgs is READDIR3args (RFC 1813 Section 3.3.16).
type ReadDirArgs struct {
	Dir    FileHandle
	Cookie uint64     // of the last entry seen; 0: from the start
	Verf   CookieVerf // of the reply that the cookie came in
	Count  uint32     // most octets of the READDIR3resok, XDR included
}

func (a *ReadDirArgs) Code(c *xdr.Coder) {
	a.Dir.Code(c)
	c.Uint64(&a.Cookie)
	c.Fixed(a.Verf[:])
	c.Uint32(&a.Count)
}

// DirEntry is an entry3.
type DirEntry struct {
	FileID uint64
	Name   string
	Cookie uint64 // of the position after this entry
}

// Size returns the encoded size in octets, with the word that announces the entry.
func (e *DirEntry) Size() int { return 24 + len(e.Name) + xdr.Pad(len(e.Name)) }

func (e *DirEntry) Code(c *xdr.Coder) {
	c.Uint64(&e.FileID)
	c.String(&e.Name, math.MaxInt) // as a name of DirOpArgs
	c.Uint64(&e.Cookie)
}

// ReadDirRes is READDIR3res.
type ReadDirRes struct {
	Status  Status
	Attr    OptAttr    // of the directory
	Verf    CookieVerf // with OK
	Entries []DirEntry // with OK; Decode reuses its capacity
	EOF     bool       // the last entry is the directory's last, with OK
}

type readDirHead ReadDirRes

func (r *readDirHead) Code(c *xdr.Coder) {
	xdr.Word(c, &r.Status)
	r.Attr.Code(c)
	if r.Status == OK {
		c.Fixed(r.Verf[:])
	}
}

func (r *ReadDirRes) Code(c *xdr.Coder) {
	if (*readDirHead)(r).Code(c); r.Status == OK {
		xdr.List(c, &r.Entries, (*DirEntry).Code)
		c.Bool(&r.EOF)
	}
}

func (r *ReadDirRes) Stat() *Status { return &r.Status }

// Head is what precedes the entries; it is the same in READDIRPLUS.
func (r *ReadDirRes) Head() xdr.Message { return (*readDirHead)(r) }

// ReadDirPlusArgs is READDIRPLUS3args (RFC 1813 Section 3.3.17).
type ReadDirPlusArgs struct {
	Dir      FileHandle
	Cookie   uint64
	Verf     CookieVerf
	DirCount uint32 // most octets of ids, names and cookies
	MaxCount uint32 // most octets of the READDIRPLUS3resok, XDR included
}

func (a *ReadDirPlusArgs) Code(c *xdr.Coder) {
	a.Dir.Code(c)
	c.Uint64(&a.Cookie)
	c.Fixed(a.Verf[:])
	c.Uint32(&a.DirCount, &a.MaxCount)
}

// DirPlusEntry is an entryplus3.
type DirPlusEntry struct {
	DirEntry
	Attr   OptAttr
	Handle OptHandle
}

// Size returns the encoded size in octets, with the word that announces the entry.
func (e *DirPlusEntry) Size() int {
	n := e.DirEntry.Size() + 8
	if e.Attr.Present {
		n += attrSize
	}
	if e.Handle.Present {
		n += 4 + len(e.Handle.Handle) + xdr.Pad(len(e.Handle.Handle))
	}
	return n
}

func (e *DirPlusEntry) Code(c *xdr.Coder) {
	e.DirEntry.Code(c)
	e.Attr.Code(c)
	e.Handle.Code(c)
}

// ReadDirPlusRes is READDIRPLUS3res.
type ReadDirPlusRes struct {
	Status  Status
	Attr    OptAttr        // of the directory
	Verf    CookieVerf     // with OK
	Entries []DirPlusEntry // with OK; Decode reuses its capacity, and lends the handles
	EOF     bool           // the last entry is the directory's last, with OK
}

func (r *ReadDirPlusRes) Code(c *xdr.Coder) {
	xdr.Word(c, &r.Status)
	r.Attr.Code(c)
	if r.Status == OK {
		c.Fixed(r.Verf[:])
		xdr.List(c, &r.Entries, (*DirPlusEntry).Code)
		c.Bool(&r.EOF)
	}
}

func (r *ReadDirPlusRes) Stat() *Status { return &r.Status }
