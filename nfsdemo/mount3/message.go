package mount3

import (
	"math"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// PathArgs is a dirpath: the arguments of MNT and UMNT.
type PathArgs struct {
	Path string // at most MaxPath octets
}

func (a *PathArgs) Code(c *xdr.Coder) { c.String(&a.Path, MaxPath) }

// MountRes is mountres3, the result of MNT (RFC 1813 Section 5.2.1).
type MountRes struct {
	Status  Status
	Handle  nfs3.FileHandle  // of the export's root, with OK; lent by Decode
	Flavors []xdr.AuthFlavor // that the server accepts, best first, with OK
}

func (r *MountRes) Code(c *xdr.Coder) {
	if xdr.Word(c, &r.Status) == OK {
		r.Handle.Code(c)
		xdr.Array(c, &r.Flavors, math.MaxInt, 4, func(f *xdr.AuthFlavor, c *xdr.Coder) { xdr.Word(c, f) })
	}
}

// Mount is an entry of DUMP: who mounted what.
type Mount struct {
	Host string // at most MaxName octets
	Dir  string // at most MaxPath octets
}

func (m *Mount) Code(c *xdr.Coder) {
	c.String(&m.Host, MaxName)
	c.String(&m.Dir, MaxPath)
}

// DumpRes is the result of DUMP (RFC 1813 Section 5.2.2).
type DumpRes struct {
	Mounts []Mount // Decode reuses its capacity
}

func (r *DumpRes) Code(c *xdr.Coder) { xdr.List(c, &r.Mounts, (*Mount).Code) }

// Export is an entry of EXPORT: what may be mounted by whom.
type Export struct {
	Dir    string   // at most MaxPath octets
	Groups []string // empty: everybody; each at most MaxName octets
}

func (e *Export) Code(c *xdr.Coder) {
	c.String(&e.Dir, MaxPath)
	xdr.List(c, &e.Groups, func(g *string, c *xdr.Coder) { c.String(g, MaxName) })
}

// ExportRes is the result of EXPORT (RFC 1813 Section 5.2.5).
type ExportRes struct {
	Exports []Export // Decode reuses its capacity
}

func (r *ExportRes) Code(c *xdr.Coder) { xdr.List(c, &r.Exports, (*Export).Code) }

// Parse reads the exports list.
