package nfs3

import "github.com/stag-rdma/stag/xdr"

// ReadLinkArgs is READLINK3args.
type ReadLinkArgs = HandleArgs

// ReadLinkRes is READLINK3res (RFC 1813 Section 3.3.5). The path is reducible.
type ReadLinkRes struct {
	Status  Status
	Attr    OptAttr
	Path    string // with OK; set by Parse
	PathLen uint32 // the count word; set by Parse and ParseHead
}

// Stat returns the status.
func (r *ReadLinkRes) Stat() Status { return r.Status }

// AppendHead appends everything before the path's count word.
func (r *ReadLinkRes) AppendHead(b []byte) []byte {
	return r.Attr.Append(xdr.AppendUint32(b, uint32(r.Status)))
}

// Append appends the READLINK3res; it ignores PathLen.
func (r *ReadLinkRes) Append(b []byte) []byte {
	b = r.AppendHead(b)
	if r.Status == OK {
		b = xdr.AppendString(b, r.Path)
	}
	return b
}

// ParseHead reads everything up to and including the path's count word.
func (r *ReadLinkRes) ParseHead(d *xdr.Decoder) error {
	r.parseAttr(d)
	if r.Status == OK {
		r.PathLen = d.Uint32()
	}
	return d.ErrIn("READLINK3res")
}

// Parse reads the READLINK3res with its path.
func (r *ReadLinkRes) Parse(d *xdr.Decoder) error {
	r.parseAttr(d)
	if r.Status == OK {
		r.Path = parseName(d)
		r.PathLen = uint32(len(r.Path))
	}
	return d.ErrIn("READLINK3res")
}

func (r *ReadLinkRes) parseAttr(d *xdr.Decoder) {
	r.Status = Status(d.Uint32())
	r.Attr.parse(d)
}
