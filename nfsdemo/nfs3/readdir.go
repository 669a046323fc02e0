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

func (a *ReadDirArgs) code(c *xdr.Coder) {
	xdr.Opaque(c, &a.Dir, MaxHandle)
	c.Uint64(&a.Cookie)
	c.Fixed(a.Verf[:])
	c.Uint32(&a.Count)
}

func (a *ReadDirArgs) Append(b []byte) []byte { return xdr.Encode(b, a, (*ReadDirArgs).code) }

func (a *ReadDirArgs) Parse(d *xdr.Decoder) error {
	return xdr.Decode(d, a, (*ReadDirArgs).code).ErrIn("READDIR3args")
}

// DirEntry is an entry3.
type DirEntry struct {
	FileID uint64
	Name   string
	Cookie uint64 // of the position after this entry
}

// Size returns the encoded size in octets, with the word that announces the entry.
func (e *DirEntry) Size() int { return 24 + len(e.Name) + xdr.Pad(len(e.Name)) }

func (e *DirEntry) code(c *xdr.Coder) {
	c.Uint64(&e.FileID)
	c.String(&e.Name, math.MaxInt) // as a name of DirOpArgs
	c.Uint64(&e.Cookie)
}

// Append appends the word that announces an entry and the entry3 without its link.
func (e *DirEntry) Append(b []byte) []byte {
	return xdr.Encode(xdr.AppendBool(b, true), e, (*DirEntry).code)
}

// ReadDirRes is READDIR3res.
type ReadDirRes struct {
	Status  Status
	Attr    OptAttr    // of the directory
	Verf    CookieVerf // with OK
	Entries []DirEntry // with OK; Parse reuses its capacity
	EOF     bool       // the last entry is the directory's last, with OK
}

func (r *ReadDirRes) head(c *xdr.Coder) { codeDirHead(c, &r.Status, &r.Attr, &r.Verf) }

func codeDirHead(c *xdr.Coder, s *Status, a *OptAttr, v *CookieVerf) {
	xdr.Word(c, s)
	a.code(c)
	if *s == OK {
		c.Fixed(v[:])
	}
}

func (r *ReadDirRes) code(c *xdr.Coder) {
	if r.head(c); r.Status == OK {
		xdr.List(c, &r.Entries, (*DirEntry).code)
		c.Bool(&r.EOF)
	}
}

func (r *ReadDirRes) Stat() Status           { return r.Status }
func (r *ReadDirRes) Append(b []byte) []byte { return xdr.Encode(b, r, (*ReadDirRes).code) }

// AppendHead appends everything before the entries.
func (r *ReadDirRes) AppendHead(b []byte) []byte { return xdr.Encode(b, r, (*ReadDirRes).head) }

// AppendDirTail appends what follows the entries of READDIR and READDIRPLUS: 8 octets.
func AppendDirTail(b []byte, eof bool) []byte {
	return xdr.AppendBool(xdr.AppendBool(b, false), eof)
}

func (r *ReadDirRes) Parse(d *xdr.Decoder) error {
	return xdr.Decode(d, r, (*ReadDirRes).code).ErrIn("READDIR3res")
}

// ReadDirPlusArgs is READDIRPLUS3args (RFC 1813 Section 3.3.17).
type ReadDirPlusArgs struct {
	Dir      FileHandle
	Cookie   uint64
	Verf     CookieVerf
	DirCount uint32 // most octets of ids, names and cookies
	MaxCount uint32 // most octets of the READDIRPLUS3resok, XDR included
}

func (a *ReadDirPlusArgs) code(c *xdr.Coder) {
	xdr.Opaque(c, &a.Dir, MaxHandle)
	c.Uint64(&a.Cookie)
	c.Fixed(a.Verf[:])
	c.Uint32(&a.DirCount, &a.MaxCount)
}

func (a *ReadDirPlusArgs) Append(b []byte) []byte { return xdr.Encode(b, a, (*ReadDirPlusArgs).code) }

func (a *ReadDirPlusArgs) Parse(d *xdr.Decoder) error {
	return xdr.Decode(d, a, (*ReadDirPlusArgs).code).ErrIn("READDIRPLUS3args")
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

func (e *DirPlusEntry) code(c *xdr.Coder) {
	e.DirEntry.code(c)
	e.Attr.code(c)
	e.Handle.code(c)
}

// Append appends the word that announces an entry and the entryplus3 without its link.
func (e *DirPlusEntry) Append(b []byte) []byte {
	return xdr.Encode(xdr.AppendBool(b, true), e, (*DirPlusEntry).code)
}

// ReadDirPlusRes is READDIRPLUS3res.
type ReadDirPlusRes struct {
	Status  Status
	Attr    OptAttr        // of the directory
	Verf    CookieVerf     // with OK
	Entries []DirPlusEntry // with OK; Parse reuses its capacity, and lends the handles
	EOF     bool           // the last entry is the directory's last, with OK
}

func (r *ReadDirPlusRes) head(c *xdr.Coder) { codeDirHead(c, &r.Status, &r.Attr, &r.Verf) }

func (r *ReadDirPlusRes) code(c *xdr.Coder) {
	if r.head(c); r.Status == OK {
		xdr.List(c, &r.Entries, (*DirPlusEntry).code)
		c.Bool(&r.EOF)
	}
}

func (r *ReadDirPlusRes) Stat() Status           { return r.Status }
func (r *ReadDirPlusRes) Append(b []byte) []byte { return xdr.Encode(b, r, (*ReadDirPlusRes).code) }

// AppendHead appends everything before the entries.
func (r *ReadDirPlusRes) AppendHead(b []byte) []byte { return xdr.Encode(b, r, (*ReadDirPlusRes).head) }

func (r *ReadDirPlusRes) Parse(d *xdr.Decoder) error {
	return xdr.Decode(d, r, (*ReadDirPlusRes).code).ErrIn("READDIRPLUS3res")
}
