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

func (t Time) append(b []byte) []byte {
	return xdr.AppendUint32(xdr.AppendUint32(b, t.Sec), t.Nsec)
}

func (t *Time) parse(d *xdr.Decoder) { t.Sec, t.Nsec = d.Uint32(), d.Uint32() }

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

// Append appends the fattr3.
func (a *Attr) Append(b []byte) []byte {
	for _, v := range [...]uint32{uint32(a.Type), a.Mode, a.Nlink, a.UID, a.GID} {
		b = xdr.AppendUint32(b, v)
	}
	b = xdr.AppendUint64(xdr.AppendUint64(b, a.Size), a.Used)
	b = xdr.AppendUint32(xdr.AppendUint32(b, a.Rdev.Major), a.Rdev.Minor)
	b = xdr.AppendUint64(xdr.AppendUint64(b, a.FSID), a.FileID)
	return a.Ctime.append(a.Mtime.append(a.Atime.append(b)))
}

func (a *Attr) parse(d *xdr.Decoder) {
	a.Type = FileType(enum(d, uint32(TypeReg), uint32(TypeFIFO)))
	a.Mode, a.Nlink, a.UID, a.GID = d.Uint32(), d.Uint32(), d.Uint32(), d.Uint32()
	a.Size, a.Used = d.Uint64(), d.Uint64()
	a.Rdev.Major, a.Rdev.Minor = d.Uint32(), d.Uint32()
	a.FSID, a.FileID = d.Uint64(), d.Uint64()
	a.Atime.parse(d)
	a.Mtime.parse(d)
	a.Ctime.parse(d)
}

// Wcc returns the part of a that wcc_data carries in "before".
func (a *Attr) Wcc() WccAttr { return WccAttr{Size: a.Size, Mtime: a.Mtime, Ctime: a.Ctime} }

// OptAttr is a post_op_attr: attributes that a server may omit (RFC 1813 Section 2.6).
type OptAttr struct {
	Present bool
	Attr    Attr
}

// SomeAttr returns a as a present post_op_attr.
func SomeAttr(a *Attr) OptAttr { return OptAttr{Present: true, Attr: *a} }

// Append appends the post_op_attr: 4 or 88 octets.
func (o *OptAttr) Append(b []byte) []byte {
	b = xdr.AppendBool(b, o.Present)
	if o.Present {
		b = o.Attr.Append(b)
	}
	return b
}

// Parse reads the post_op_attr.
func (o *OptAttr) Parse(d *xdr.Decoder) error {
	o.parse(d)
	return d.ErrIn("post_op_attr")
}

func (o *OptAttr) parse(d *xdr.Decoder) {
	if o.Present = d.Bool(); o.Present {
		o.Attr.parse(d)
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
// (RFC 1813 Section 2.6). Before is present only if it was taken atomically with it.
type Wcc struct {
	Before OptWcc
	After  OptAttr
}

// Append appends the wcc_data: 8 to 116 octets.
func (w *Wcc) Append(b []byte) []byte {
	b = xdr.AppendBool(b, w.Before.Present)
	if w.Before.Present {
		b = xdr.AppendUint64(b, w.Before.Attr.Size)
		b = w.Before.Attr.Ctime.append(w.Before.Attr.Mtime.append(b))
	}
	return w.After.Append(b)
}

func (w *Wcc) parse(d *xdr.Decoder) {
	if w.Before.Present = d.Bool(); w.Before.Present {
		w.Before.Attr.Size = d.Uint64()
		w.Before.Attr.Mtime.parse(d)
		w.Before.Attr.Ctime.parse(d)
	}
	w.After.parse(d)
}
