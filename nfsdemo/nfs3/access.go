package nfs3

import "github.com/stag-rdma/stag/xdr"

// AccessArgs is ACCESS3args (RFC 1813 Section 3.3.4).
type AccessArgs struct {
	Handle FileHandle
	Access Access // the rights asked about
}

// Append appends the ACCESS3args.
func (a *AccessArgs) Append(b []byte) []byte {
	return xdr.AppendUint32(appendHandle(b, a.Handle), uint32(a.Access))
}

// Parse reads the ACCESS3args; the handle is lent.
func (a *AccessArgs) Parse(d *xdr.Decoder) error {
	a.Handle = parseHandle(d)
	a.Access = Access(d.Uint32())
	return d.ErrIn("ACCESS3args")
}

// AccessRes is ACCESS3res.
type AccessRes struct {
	Status Status
	Attr   OptAttr
	Access Access // granted, with OK
}

// Stat returns the status.
func (r *AccessRes) Stat() Status { return r.Status }

// Append appends the ACCESS3res.
func (r *AccessRes) Append(b []byte) []byte {
	b = r.Attr.Append(xdr.AppendUint32(b, uint32(r.Status)))
	if r.Status == OK {
		b = xdr.AppendUint32(b, uint32(r.Access))
	}
	return b
}

// Parse reads the ACCESS3res.
func (r *AccessRes) Parse(d *xdr.Decoder) error {
	r.Status = Status(d.Uint32())
	r.Attr.parse(d)
	if r.Status == OK {
		r.Access = Access(d.Uint32())
	}
	return d.ErrIn("ACCESS3res")
}
