package nfs3

import "github.com/stag-rdma/stag/xdr"

// CreateArgs is CREATE3args (RFC 1813 Section 3.3.8).
type CreateArgs struct {
	Where DirOpArgs
	Mode  CreateMode
	Attr  SetAttr    // with Unchecked and Guarded
	Verf  CreateVerf // with Exclusive
}

// Append appends the CREATE3args.
func (a *CreateArgs) Append(b []byte) []byte {
	b = xdr.AppendUint32(a.Where.Append(b), uint32(a.Mode))
	if a.Mode == Exclusive {
		return appendVerf(b, a.Verf)
	}
	return a.Attr.Append(b)
}

// Parse reads the CREATE3args; the handle is lent.
func (a *CreateArgs) Parse(d *xdr.Decoder) error {
	a.Where.parse(d)
	a.Mode = CreateMode(enum(d, uint32(Unchecked), uint32(Exclusive)))
	if a.Mode == Exclusive {
		a.Verf = parseVerf(d)
	} else {
		a.Attr.parse(d)
	}
	return d.ErrIn("CREATE3args")
}

// NewRes is the result of the procedures that make an object: CREATE, MKDIR, SYMLINK and
// MKNOD.
type NewRes struct {
	Status Status
	Handle OptHandle // with OK
	Attr   OptAttr   // with OK
	DirWcc Wcc
}

// The results of four procedures have the same shape.
type (
	CreateRes  = NewRes // CREATE3res
	MkdirRes   = NewRes // MKDIR3res
	SymlinkRes = NewRes // SYMLINK3res
	MknodRes   = NewRes // MKNOD3res
)

// Stat returns the status.
func (r *NewRes) Stat() Status { return r.Status }

// Append appends the result.
func (r *NewRes) Append(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(r.Status))
	if r.Status == OK {
		b = r.Attr.Append(r.Handle.append(b))
	}
	return r.DirWcc.Append(b)
}

// Parse reads the result; the handle is lent.
func (r *NewRes) Parse(d *xdr.Decoder) error {
	if r.Status = Status(d.Uint32()); r.Status == OK {
		r.Handle.parse(d)
		r.Attr.parse(d)
	}
	r.DirWcc.parse(d)
	return d.ErrIn("CREATE3res")
}
