package nfs3

import "github.com/stag-rdma/stag/xdr"

// LookupArgs is LOOKUP3args.
type LookupArgs = DirOpArgs

// LookupRes is LOOKUP3res (RFC 1813 Section 3.3.3).
type LookupRes struct {
	Status  Status
	Handle  FileHandle // with OK
	Attr    OptAttr    // of the object, with OK
	DirAttr OptAttr    // of the directory
}

// Stat returns the status.
func (r *LookupRes) Stat() Status { return r.Status }

// Append appends the LOOKUP3res.
func (r *LookupRes) Append(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(r.Status))
	if r.Status == OK {
		b = r.Attr.Append(appendHandle(b, r.Handle))
	}
	return r.DirAttr.Append(b)
}

// Parse reads the LOOKUP3res; the handle is lent.
func (r *LookupRes) Parse(d *xdr.Decoder) error {
	if r.Status = Status(d.Uint32()); r.Status == OK {
		r.Handle = parseHandle(d)
		r.Attr.parse(d)
	}
	r.DirAttr.parse(d)
	return d.ErrIn("LOOKUP3res")
}
