package nfs3

import "github.com/stag-rdma/stag/xdr"

// SetAttrArgs is SETATTR3args (RFC 1813 Section 3.3.2).
type SetAttrArgs struct {
	Handle FileHandle
	Attr   SetAttr
	Guard  bool // the file must have Ctime, otherwise NFS3ERR_NOT_SYNC
	Ctime  Time
}

// Append appends the SETATTR3args.
func (a *SetAttrArgs) Append(b []byte) []byte {
	b = a.Attr.Append(appendHandle(b, a.Handle))
	b = xdr.AppendBool(b, a.Guard)
	if a.Guard {
		b = a.Ctime.append(b)
	}
	return b
}

// Parse reads the SETATTR3args; the handle is lent.
func (a *SetAttrArgs) Parse(d *xdr.Decoder) error {
	a.Handle = parseHandle(d)
	a.Attr.parse(d)
	if a.Guard = d.Bool(); a.Guard {
		a.Ctime.parse(d)
	}
	return d.ErrIn("SETATTR3args")
}

// WccRes is a result with a status, and the wcc_data of one object in both arms: of SETATTR, REMOVE
// and RMDIR.
type WccRes struct {
	Status Status
	Wcc    Wcc
}

// The results of three procedures have the same shape.
type (
	SetAttrRes = WccRes // SETATTR3res: of the object
	RemoveRes  = WccRes // REMOVE3res: of the directory
	RmdirRes   = WccRes // RMDIR3res: of the directory
)

// Stat returns the status.
func (r *WccRes) Stat() Status { return r.Status }

// Append appends the result.
func (r *WccRes) Append(b []byte) []byte {
	return r.Wcc.Append(xdr.AppendUint32(b, uint32(r.Status)))
}

// Parse reads the result.
func (r *WccRes) Parse(d *xdr.Decoder) error {
	r.Status = Status(d.Uint32())
	r.Wcc.parse(d)
	return d.ErrIn("wcc_data")
}
