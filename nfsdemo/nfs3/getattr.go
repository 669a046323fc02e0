package nfs3

import "github.com/stag-rdma/stag/xdr"

// GetAttrArgs is GETATTR3args.
type GetAttrArgs = HandleArgs

// GetAttrRes is GETATTR3res (RFC 1813 Section 3.3.1).
type GetAttrRes struct {
	Status Status
	Attr   Attr // with OK
}

// Stat returns the status.
func (r *GetAttrRes) Stat() Status { return r.Status }

// Append appends the GETATTR3res.
func (r *GetAttrRes) Append(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(r.Status))
	if r.Status == OK {
		b = r.Attr.Append(b)
	}
	return b
}

// Parse reads the GETATTR3res.
func (r *GetAttrRes) Parse(d *xdr.Decoder) error {
	if r.Status = Status(d.Uint32()); r.Status == OK {
		r.Attr.parse(d)
	}
	return d.ErrIn("GETATTR3res")
}
