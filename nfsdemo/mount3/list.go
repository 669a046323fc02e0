package mount3

import "github.com/stag-rdma/stag/xdr"

// Mount is an entry of DUMP: who mounted what.
type Mount struct {
	Host string // at most MaxName octets
	Dir  string // at most MaxPath octets
}

// DumpRes is the result of DUMP (RFC 1813 Section 5.2.2).
type DumpRes struct {
	Mounts []Mount
}

// Append appends the mountlist.
func (r *DumpRes) Append(b []byte) []byte {
	for i := range r.Mounts {
		b = xdr.AppendString(xdr.AppendBool(b, true), r.Mounts[i].Host)
		b = xdr.AppendString(b, r.Mounts[i].Dir)
	}
	return xdr.AppendBool(b, false)
}

// Parse reads the mountlist. Mounts reuses its capacity.
func (r *DumpRes) Parse(d *xdr.Decoder) error {
	r.Mounts = r.Mounts[:0]
	for d.Bool() && d.Err() == nil {
		host := d.String(MaxName)
		r.Mounts = append(r.Mounts, Mount{Host: host, Dir: d.String(MaxPath)})
	}
	return d.ErrIn("mountlist")
}

// Export is an entry of EXPORT: what may be mounted by whom.
type Export struct {
	Dir    string   // at most MaxPath octets
	Groups []string // empty: everybody; each at most MaxName octets
}

// ExportRes is the result of EXPORT (RFC 1813 Section 5.2.5).
type ExportRes struct {
	Exports []Export
}

// Append appends the exports list.
func (r *ExportRes) Append(b []byte) []byte {
	for i := range r.Exports {
		b = xdr.AppendString(xdr.AppendBool(b, true), r.Exports[i].Dir)
		for _, g := range r.Exports[i].Groups {
			b = xdr.AppendString(xdr.AppendBool(b, true), g)
		}
		b = xdr.AppendBool(b, false)
	}
	return xdr.AppendBool(b, false)
}

// Parse reads the exports list. Exports reuses its capacity.
func (r *ExportRes) Parse(d *xdr.Decoder) error {
	r.Exports = r.Exports[:0]
	for d.Bool() && d.Err() == nil {
		e := Export{Dir: d.String(MaxPath)}
		for d.Bool() && d.Err() == nil {
			e.Groups = append(e.Groups, d.String(MaxName))
		}
		r.Exports = append(r.Exports, e)
	}
	return d.ErrIn("exports")
}
