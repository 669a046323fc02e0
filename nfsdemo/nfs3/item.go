package nfs3

import (
	"math"

	"github.com/stag-rdma/stag/xdr"
)

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
