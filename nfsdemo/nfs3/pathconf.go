package nfs3

import "github.com/stag-rdma/stag/xdr"

// PathConfRes is PATHCONF3res (RFC 1813 Section 3.3.20). All but Status and Attr come
// with OK.
type PathConfRes struct {
	Status          Status
	Attr            OptAttr
	LinkMax         uint32 // most hard links of a file
	NameMax         uint32 // longest name, octets
	NoTrunc         bool   // longer names are refused, not truncated
	ChownRestricted bool   // only a privileged user can change owners
	CaseInsensitive bool
	CasePreserving  bool
}

// Stat returns the status.
func (r *PathConfRes) Stat() Status { return r.Status }

func (r *PathConfRes) flags() [4]*bool {
	return [...]*bool{&r.NoTrunc, &r.ChownRestricted, &r.CaseInsensitive, &r.CasePreserving}
}

// Append appends the PATHCONF3res.
func (r *PathConfRes) Append(b []byte) []byte {
	b = r.Attr.Append(xdr.AppendUint32(b, uint32(r.Status)))
	if r.Status != OK {
		return b
	}
	b = xdr.AppendUint32(xdr.AppendUint32(b, r.LinkMax), r.NameMax)
	for _, v := range r.flags() {
		b = xdr.AppendBool(b, *v)
	}
	return b
}

// Parse reads the PATHCONF3res.
func (r *PathConfRes) Parse(d *xdr.Decoder) error {
	r.Status = Status(d.Uint32())
	r.Attr.parse(d)
	if r.Status == OK {
		r.LinkMax, r.NameMax = d.Uint32(), d.Uint32()
		for _, v := range r.flags() {
			*v = d.Bool()
		}
	}
	return d.ErrIn("PATHCONF3res")
}
