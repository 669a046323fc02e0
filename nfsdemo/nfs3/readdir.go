package nfs3

import (
	"math"

	"github.com/stag-rdma/stag/xdr"
)

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
