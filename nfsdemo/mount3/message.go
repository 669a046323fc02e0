package mount3

import (
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// PathArgs is a dirpath: the arguments of MNT and UMNT.
type PathArgs struct {
	Path string // at most MaxPath octets
}

func (a *PathArgs) code(c *xdr.Coder) { c.String(&a.Path, MaxPath) }

// Append appends the dirpath.
func (a *PathArgs) Append(b []byte) []byte { return xdr.Encode(b, a, (*PathArgs).code) }

// Parse reads the dirpath.
func (a *PathArgs) Parse(d *xdr.Decoder) error {
	return xdr.Decode(d, a, (*PathArgs).code).ErrIn("dirpath")
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

// Mount is an entry of DUMP: who mounted what.
type Mount struct {
	Host string // at most MaxName octets
	Dir  string // at most MaxPath octets
}

func (m *Mount) code(c *xdr.Coder) {
	c.String(&m.Host, MaxName)
	c.String(&m.Dir, MaxPath)
}

// DumpRes is the result of DUMP (RFC 1813 Section 5.2.2).
type DumpRes struct {
	Mounts []Mount // Parse reuses its capacity
}

func (r *DumpRes) code(c *xdr.Coder) { xdr.List(c, &r.Mounts, (*Mount).code) }

// Append appends the mountlist.
func (r *DumpRes) Append(b []byte) []byte { return xdr.Encode(b, r, (*DumpRes).code) }

// Parse reads the mountlist.
func (r *DumpRes) Parse(d *xdr.Decoder) error {
	return xdr.Decode(d, r, (*DumpRes).code).ErrIn("mountlist")
}

// Export is an entry of EXPORT: what may be mounted by whom.
type Export struct {
	Dir    string   // at most MaxPath octets
	Groups []string // empty: everybody; each at most MaxName octets
}

func (e *Export) code(c *xdr.Coder) {
	c.String(&e.Dir, MaxPath)
	xdr.List(c, &e.Groups, func(g *string, c *xdr.Coder) { c.String(g, MaxName) })
}

// ExportRes is the result of EXPORT (RFC 1813 Section 5.2.5).
type ExportRes struct {
	Exports []Export // Parse reuses its capacity
}

func (r *ExportRes) code(c *xdr.Coder) { xdr.List(c, &r.Exports, (*Export).code) }

// Append appends the exports list.
func (r *ExportRes) Append(b []byte) []byte { return xdr.Encode(b, r, (*ExportRes).code) }

// Parse reads the exports list.
func (r *ExportRes) Parse(d *xdr.Decoder) error {
	return xdr.Decode(d, r, (*ExportRes).code).ErrIn("exports")
}
