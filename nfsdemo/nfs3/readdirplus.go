package nfs3

import "github.com/stag-rdma/stag/xdr"

// ReadDirPlusArgs is READDIRPLUS3args (RFC 1813 Section 3.3.17).
type ReadDirPlusArgs struct {
	Dir      FileHandle
	Cookie   uint64
	Verf     CookieVerf
	DirCount uint32 // most octets of ids, names and cookies
	MaxCount uint32 // most octets of the READDIRPLUS3resok, XDR included
}

// Append appends the READDIRPLUS3args.
func (a *ReadDirPlusArgs) Append(b []byte) []byte {
	b = appendVerf(xdr.AppendUint64(appendHandle(b, a.Dir), a.Cookie), a.Verf)
	return xdr.AppendUint32(xdr.AppendUint32(b, a.DirCount), a.MaxCount)
}

// Parse reads the READDIRPLUS3args; the handle is lent.
func (a *ReadDirPlusArgs) Parse(d *xdr.Decoder) error {
	a.Dir = parseHandle(d)
	a.Cookie = d.Uint64()
	a.Verf = parseVerf(d)
	a.DirCount, a.MaxCount = d.Uint32(), d.Uint32()
	return d.ErrIn("READDIRPLUS3args")
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

// Append appends the word that announces an entry and the entryplus3 without its link.
func (e *DirPlusEntry) Append(b []byte) []byte {
	return e.Handle.append(e.Attr.Append(e.DirEntry.Append(b)))
}

func (e *DirPlusEntry) parse(d *xdr.Decoder) {
	e.DirEntry.parse(d)
	e.Attr.parse(d)
	e.Handle.parse(d)
}

// ReadDirPlusRes is READDIRPLUS3res.
type ReadDirPlusRes struct {
	Status  Status
	Attr    OptAttr        // of the directory
	Verf    CookieVerf     // with OK
	Entries []DirPlusEntry // with OK
	EOF     bool           // the last entry is the directory's last, with OK
}

// Stat returns the status.
func (r *ReadDirPlusRes) Stat() Status { return r.Status }

// AppendHead appends everything before the entries.
func (r *ReadDirPlusRes) AppendHead(b []byte) []byte {
	return appendDirHead(b, r.Status, &r.Attr, r.Verf)
}

// Append appends the READDIRPLUS3res.
func (r *ReadDirPlusRes) Append(b []byte) []byte {
	b = r.AppendHead(b)
	if r.Status != OK {
		return b
	}
	for i := range r.Entries {
		b = r.Entries[i].Append(b)
	}
	return AppendDirTail(b, r.EOF)
}

// Parse reads the READDIRPLUS3res; handles are lent. Entries reuses its capacity.
func (r *ReadDirPlusRes) Parse(d *xdr.Decoder) error {
	r.Status, r.Entries = Status(d.Uint32()), r.Entries[:0]
	r.Attr.parse(d)
	if r.Status == OK {
		r.Verf = parseVerf(d)
		for d.Bool() && d.Err() == nil {
			var e DirPlusEntry
			e.parse(d)
			r.Entries = append(r.Entries, e)
		}
		r.EOF = d.Bool()
	}
	return d.ErrIn("READDIRPLUS3res")
}
