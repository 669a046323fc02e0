package nfs3

import "github.com/stag-rdma/stag/xdr"

// ReadDirArgs is READDIR3args (RFC 1813 Section 3.3.16).
type ReadDirArgs struct {
	Dir    FileHandle
	Cookie uint64     // of the last entry seen; 0: from the start
	Verf   CookieVerf // of the reply that the cookie came in
	Count  uint32     // most octets of the READDIR3resok, XDR included
}

// Append appends the READDIR3args.
func (a *ReadDirArgs) Append(b []byte) []byte {
	b = appendVerf(xdr.AppendUint64(appendHandle(b, a.Dir), a.Cookie), a.Verf)
	return xdr.AppendUint32(b, a.Count)
}

// Parse reads the READDIR3args; the handle is lent.
func (a *ReadDirArgs) Parse(d *xdr.Decoder) error {
	a.Dir = parseHandle(d)
	a.Cookie = d.Uint64()
	a.Verf = parseVerf(d)
	a.Count = d.Uint32()
	return d.ErrIn("READDIR3args")
}

// DirEntry is an entry3.
type DirEntry struct {
	FileID uint64
	Name   string
	Cookie uint64 // of the position after this entry
}

// Size returns the encoded size in octets, with the word that announces the entry.
func (e *DirEntry) Size() int { return 24 + len(e.Name) + xdr.Pad(len(e.Name)) }

// Append appends the word that announces an entry and the entry3 without its link.
func (e *DirEntry) Append(b []byte) []byte {
	b = xdr.AppendUint64(xdr.AppendBool(b, true), e.FileID)
	return xdr.AppendUint64(xdr.AppendString(b, e.Name), e.Cookie)
}

func (e *DirEntry) parse(d *xdr.Decoder) {
	e.FileID = d.Uint64()
	e.Name = parseName(d)
	e.Cookie = d.Uint64()
}

// ReadDirRes is READDIR3res.
type ReadDirRes struct {
	Status  Status
	Attr    OptAttr    // of the directory
	Verf    CookieVerf // with OK
	Entries []DirEntry // with OK
	EOF     bool       // the last entry is the directory's last, with OK
}

// Stat returns the status.
func (r *ReadDirRes) Stat() Status { return r.Status }

// AppendHead appends everything before the entries.
func (r *ReadDirRes) AppendHead(b []byte) []byte {
	return appendDirHead(b, r.Status, &r.Attr, r.Verf)
}

func appendDirHead(b []byte, s Status, a *OptAttr, v CookieVerf) []byte {
	b = a.Append(xdr.AppendUint32(b, uint32(s)))
	if s == OK {
		b = appendVerf(b, v)
	}
	return b
}

// AppendDirTail appends what follows the entries of READDIR and READDIRPLUS: 8 octets.
func AppendDirTail(b []byte, eof bool) []byte {
	return xdr.AppendBool(xdr.AppendBool(b, false), eof)
}

// Append appends the READDIR3res.
func (r *ReadDirRes) Append(b []byte) []byte {
	b = r.AppendHead(b)
	if r.Status != OK {
		return b
	}
	for i := range r.Entries {
		b = r.Entries[i].Append(b)
	}
	return AppendDirTail(b, r.EOF)
}

// Parse reads the READDIR3res. Entries reuses its capacity.
func (r *ReadDirRes) Parse(d *xdr.Decoder) error {
	r.Status, r.Entries = Status(d.Uint32()), r.Entries[:0]
	r.Attr.parse(d)
	if r.Status == OK {
		r.Verf = parseVerf(d)
		for d.Bool() && d.Err() == nil {
			var e DirEntry
			e.parse(d)
			r.Entries = append(r.Entries, e)
		}
		r.EOF = d.Bool()
	}
	return d.ErrIn("READDIR3res")
}
