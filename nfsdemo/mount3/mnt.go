package mount3

import (
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// PathArgs is a dirpath: the arguments of MNT and UMNT.
type PathArgs struct {
	Path string // at most MaxPath octets
}

// Append appends the dirpath.
func (a *PathArgs) Append(b []byte) []byte { return xdr.AppendString(b, a.Path) }

// Parse reads the dirpath.
func (a *PathArgs) Parse(d *xdr.Decoder) error {
	a.Path = d.String(MaxPath)
	return d.ErrIn("dirpath")
}

// MountRes is mountres3, the result of MNT (RFC 1813 Section 5.2.1).
type MountRes struct {
	Status  Status
	Handle  nfs3.FileHandle  // of the export's root, with OK; lent by Parse
	Flavors []xdr.AuthFlavor // that the server accepts, best first, with OK
}

// Append appends the mountres3.
func (r *MountRes) Append(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(r.Status))
	if r.Status != OK {
		return b
	}
	b = xdr.AppendOpaque(b, r.Handle)
	b = xdr.AppendUint32(b, uint32(len(r.Flavors)))
	for _, f := range r.Flavors {
		b = xdr.AppendUint32(b, uint32(f))
	}
	return b
}

// Parse reads the mountres3. Flavors reuses its capacity.
func (r *MountRes) Parse(d *xdr.Decoder) error {
	r.Status, r.Flavors = Status(d.Uint32()), r.Flavors[:0]
	if r.Status == OK {
		r.Handle = d.Opaque(nfs3.MaxHandle)
		for n := d.Uint32(); n > 0 && d.Err() == nil; n-- {
			r.Flavors = append(r.Flavors, xdr.AuthFlavor(d.Uint32()))
		}
	}
	return d.ErrIn("mountres3")
}
