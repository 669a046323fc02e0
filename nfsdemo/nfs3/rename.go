package nfs3

import "github.com/stag-rdma/stag/xdr"

// The arguments of the two removals are a name in a directory.
type (
	RemoveArgs = DirOpArgs // REMOVE3args (RFC 1813 Section 3.3.12)
	RmdirArgs  = DirOpArgs // RMDIR3args (RFC 1813 Section 3.3.13)
)

// RenameArgs is RENAME3args (RFC 1813 Section 3.3.14).
type RenameArgs struct {
	From DirOpArgs
	To   DirOpArgs
}

// Append appends the RENAME3args.
func (a *RenameArgs) Append(b []byte) []byte { return a.To.Append(a.From.Append(b)) }

// Parse reads the RENAME3args; the handles are lent.
func (a *RenameArgs) Parse(d *xdr.Decoder) error {
	a.From.parse(d)
	a.To.parse(d)
	return d.ErrIn("RENAME3args")
}

// RenameRes is RENAME3res: the same fields in both arms.
type RenameRes struct {
	Status  Status
	FromWcc Wcc
	ToWcc   Wcc
}

// Stat returns the status.
func (r *RenameRes) Stat() Status { return r.Status }

// Append appends the RENAME3res.
func (r *RenameRes) Append(b []byte) []byte {
	return r.ToWcc.Append(r.FromWcc.Append(xdr.AppendUint32(b, uint32(r.Status))))
}

// Parse reads the RENAME3res.
func (r *RenameRes) Parse(d *xdr.Decoder) error {
	r.Status = Status(d.Uint32())
	r.FromWcc.parse(d)
	r.ToWcc.parse(d)
	return d.ErrIn("RENAME3res")
}

// LinkArgs is LINK3args (RFC 1813 Section 3.3.15).
type LinkArgs struct {
	Handle FileHandle // of the existing file
	Link   DirOpArgs  // the new name
}

// Append appends the LINK3args.
func (a *LinkArgs) Append(b []byte) []byte { return a.Link.Append(appendHandle(b, a.Handle)) }

// Parse reads the LINK3args; the handles are lent.
func (a *LinkArgs) Parse(d *xdr.Decoder) error {
	a.Handle = parseHandle(d)
	a.Link.parse(d)
	return d.ErrIn("LINK3args")
}

// LinkRes is LINK3res: the same fields in both arms.
type LinkRes struct {
	Status Status
	Attr   OptAttr // of the file
	DirWcc Wcc
}

// Stat returns the status.
func (r *LinkRes) Stat() Status { return r.Status }

// Append appends the LINK3res.
func (r *LinkRes) Append(b []byte) []byte {
	return r.DirWcc.Append(r.Attr.Append(xdr.AppendUint32(b, uint32(r.Status))))
}

// Parse reads the LINK3res.
func (r *LinkRes) Parse(d *xdr.Decoder) error {
	r.Status = Status(d.Uint32())
	r.Attr.parse(d)
	r.DirWcc.parse(d)
	return d.ErrIn("LINK3res")
}
