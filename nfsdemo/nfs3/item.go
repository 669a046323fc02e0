package nfs3

import (
	"math"

	"github.com/stag-rdma/stag/xdr"
)

// This file has the four messages with an item that a transport may move apart from the rest.

// ReadArgs is READ3args (RFC 1813 Section 3.3.6).
type ReadArgs struct {
	Handle FileHandle
	Offset uint64 // octets
	Count  uint32 // octets
}

func (a *ReadArgs) code(c *xdr.Coder) {
	xdr.Opaque(c, &a.Handle, MaxHandle)
	c.Uint64(&a.Offset)
	c.Uint32(&a.Count)
}

func (a *ReadArgs) Append(b []byte) []byte { return xdr.Encode(b, a, (*ReadArgs).code) }

func (a *ReadArgs) Parse(d *xdr.Decoder) error {
	return xdr.Decode(d, a, (*ReadArgs).code).ErrIn("READ3args")
}

// ReadRes is READ3res. The data are reducible.
type ReadRes struct {
	Status  Status
	Attr    OptAttr
	Count   uint32 // octets read, with OK; equal to DataLen in a valid reply
	EOF     bool   // the read reached the end of the file, with OK
	Data    []byte // with OK; lent by Parse
	DataLen uint32 // the data's count word; set by Parse and ParseHead
}

func (r *ReadRes) head(c *xdr.Coder) {
	xdr.Word(c, &r.Status)
	r.Attr.code(c)
	if r.Status == OK {
		c.Uint32(&r.Count)
		c.Bool(&r.EOF)
	}
}

func (r *ReadRes) code(c *xdr.Coder) {
	if r.head(c); r.Status == OK {
		xdr.Opaque(c, &r.Data, math.MaxInt)
	}
}

func (r *ReadRes) Stat() Status { return r.Status }

// Append appends the READ3res with its data; it ignores DataLen.
func (r *ReadRes) Append(b []byte) []byte { return xdr.Encode(b, r, (*ReadRes).code) }

// AppendHead appends everything before the data's count word.
func (r *ReadRes) AppendHead(b []byte) []byte { return xdr.Encode(b, r, (*ReadRes).head) }

// ParseHead reads everything up to and including the data's count word.
func (r *ReadRes) ParseHead(d *xdr.Decoder) error {
	if xdr.Decode(d, r, (*ReadRes).head); r.Status == OK {
		r.DataLen = d.Uint32()
	}
	return d.ErrIn("READ3res")
}

// Parse reads the READ3res with its data.
func (r *ReadRes) Parse(d *xdr.Decoder) error {
	if xdr.Decode(d, r, (*ReadRes).code); r.Status == OK {
		r.DataLen = uint32(len(r.Data))
	}
	return d.ErrIn("READ3res")
}

// ReadLinkRes is READLINK3res (RFC 1813 Section 3.3.5). The path is reducible.
type ReadLinkRes struct {
	Status  Status
	Attr    OptAttr
	Path    string // with OK; set by Parse
	PathLen uint32 // the count word; set by Parse and ParseHead
}

func (r *ReadLinkRes) head(c *xdr.Coder) {
	xdr.Word(c, &r.Status)
	r.Attr.code(c)
}

func (r *ReadLinkRes) code(c *xdr.Coder) {
	if r.head(c); r.Status == OK {
		c.String(&r.Path, math.MaxInt)
	}
}

func (r *ReadLinkRes) Stat() Status { return r.Status }

// Append appends the READLINK3res; it ignores PathLen.
func (r *ReadLinkRes) Append(b []byte) []byte { return xdr.Encode(b, r, (*ReadLinkRes).code) }

// AppendHead appends everything before the path's count word.
func (r *ReadLinkRes) AppendHead(b []byte) []byte { return xdr.Encode(b, r, (*ReadLinkRes).head) }

// ParseHead reads everything up to and including the path's count word.
func (r *ReadLinkRes) ParseHead(d *xdr.Decoder) error {
	if xdr.Decode(d, r, (*ReadLinkRes).head); r.Status == OK {
		r.PathLen = d.Uint32()
	}
	return d.ErrIn("READLINK3res")
}

// Parse reads the READLINK3res with its path.
func (r *ReadLinkRes) Parse(d *xdr.Decoder) error {
	if xdr.Decode(d, r, (*ReadLinkRes).code); r.Status == OK {
		r.PathLen = uint32(len(r.Path))
	}
	return d.ErrIn("READLINK3res")
}

// WriteArgs is WRITE3args (RFC 1813 Section 3.3.7). The data are reducible.
type WriteArgs struct {
	Handle FileHandle
	Offset uint64 // octets
	Count  uint32 // octets; must be the length of Data
	Stable StableHow
	Data   []byte // lent by Parse
}

func (a *WriteArgs) head(c *xdr.Coder) {
	xdr.Opaque(c, &a.Handle, MaxHandle)
	c.Uint64(&a.Offset)
	c.Uint32(&a.Count)
	xdr.Enum(c, &a.Stable, Unstable, FileSync)
}

func (a *WriteArgs) code(c *xdr.Coder) {
	a.head(c)
	xdr.Opaque(c, &a.Data, math.MaxInt)
}

// Append appends the WRITE3args with its data.
func (a *WriteArgs) Append(b []byte) []byte { return xdr.Encode(b, a, (*WriteArgs).code) }

// AppendHead appends everything up to and including the data's count word, which is Count.
func (a *WriteArgs) AppendHead(b []byte) []byte {
	return xdr.AppendUint32(xdr.Encode(b, a, (*WriteArgs).head), a.Count)
}

// ParseHead reads everything before the data's count word; the handle is lent.
func (a *WriteArgs) ParseHead(d *xdr.Decoder) error {
	return xdr.Decode(d, a, (*WriteArgs).head).ErrIn("WRITE3args")
}

// Parse reads the WRITE3args; handle and data are lent.
func (a *WriteArgs) Parse(d *xdr.Decoder) error {
	return xdr.Decode(d, a, (*WriteArgs).code).ErrIn("WRITE3args")
}

// WriteRes is WRITE3res.
type WriteRes struct {
	Status    Status
	Wcc       Wcc
	Count     uint32    // octets written, with OK
	Committed StableHow // at least the stability asked for, with OK
	Verf      WriteVerf // with OK
}

func (r *WriteRes) code(c *xdr.Coder) {
	xdr.Word(c, &r.Status)
	r.Wcc.code(c)
	if r.Status == OK {
		c.Uint32(&r.Count)
		xdr.Enum(c, &r.Committed, Unstable, FileSync)
		c.Fixed(r.Verf[:])
	}
}

func (r *WriteRes) Stat() Status           { return r.Status }
func (r *WriteRes) Append(b []byte) []byte { return xdr.Encode(b, r, (*WriteRes).code) }

func (r *WriteRes) Parse(d *xdr.Decoder) error {
	return xdr.Decode(d, r, (*WriteRes).code).ErrIn("WRITE3res")
}

// SymlinkArgs is SYMLINK3args (RFC 1813 Section 3.3.10). The path is reducible.
type SymlinkArgs struct {
	Where DirOpArgs
	Attr  SetAttr
	Path  string // opaque to the server
}

func (a *SymlinkArgs) head(c *xdr.Coder) {
	a.Where.code(c)
	a.Attr.code(c)
}

func (a *SymlinkArgs) code(c *xdr.Coder) {
	a.head(c)
	c.String(&a.Path, math.MaxInt)
}

func (a *SymlinkArgs) Append(b []byte) []byte { return xdr.Encode(b, a, (*SymlinkArgs).code) }

// AppendHead appends everything up to and including the path's count word.
func (a *SymlinkArgs) AppendHead(b []byte) []byte {
	return xdr.AppendUint32(xdr.Encode(b, a, (*SymlinkArgs).head), uint32(len(a.Path)))
}

func (a *SymlinkArgs) Parse(d *xdr.Decoder) error {
	return xdr.Decode(d, a, (*SymlinkArgs).code).ErrIn("SYMLINK3args")
}
