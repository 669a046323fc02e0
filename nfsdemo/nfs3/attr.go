package nfs3

import (
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
