package nfs3

import "github.com/stag-rdma/stag/xdr"

// The arguments of the three file system queries are a file handle.
type (
	FSStatArgs   = HandleArgs // FSSTAT3args
	FSInfoArgs   = HandleArgs // FSINFO3args
	PathConfArgs = HandleArgs // PATHCONF3args
)

// FSStatRes is FSSTAT3res (RFC 1813 Section 3.3.18). All but Status and Attr come with OK.
type FSStatRes struct {
	Status     Status
	Attr       OptAttr
	TotalBytes uint64 // octets in total
	FreeBytes  uint64 // octets free
	AvailBytes uint64 // octets that the caller may use
	TotalFiles uint64 // file slots in total
	FreeFiles  uint64
	AvailFiles uint64
	Invarsec   uint32 // seconds during which this is not expected to change
}

// Stat returns the status.
func (r *FSStatRes) Stat() Status { return r.Status }

func (r *FSStatRes) fields() [6]*uint64 {
	return [...]*uint64{&r.TotalBytes, &r.FreeBytes, &r.AvailBytes, &r.TotalFiles, &r.FreeFiles, &r.AvailFiles}
}

// Append appends the FSSTAT3res.
func (r *FSStatRes) Append(b []byte) []byte {
	b = r.Attr.Append(xdr.AppendUint32(b, uint32(r.Status)))
	if r.Status != OK {
		return b
	}
	for _, v := range r.fields() {
		b = xdr.AppendUint64(b, *v)
	}
	return xdr.AppendUint32(b, r.Invarsec)
}

// Parse reads the FSSTAT3res.
func (r *FSStatRes) Parse(d *xdr.Decoder) error {
	r.Status = Status(d.Uint32())
	r.Attr.parse(d)
	if r.Status == OK {
		for _, v := range r.fields() {
			*v = d.Uint64()
		}
		r.Invarsec = d.Uint32()
	}
	return d.ErrIn("FSSTAT3res")
}

// FSInfoRes is FSINFO3res (RFC 1813 Section 3.3.19). All but Status and Attr come with OK;
// sizes are octets.
type FSInfoRes struct {
	Status      Status
	Attr        OptAttr
	RTMax       uint32 // largest READ
	RTPref      uint32 // preferred READ
	RTMult      uint32 // READ counts should be multiples of this
	WTMax       uint32 // largest WRITE
	WTPref      uint32
	WTMult      uint32
	DTPref      uint32 // preferred READDIR
	MaxFileSize uint64
	TimeDelta   Time   // granularity of times
	Properties  uint32 // Prop bits
}

// Stat returns the status.
func (r *FSInfoRes) Stat() Status { return r.Status }

func (r *FSInfoRes) fields() [7]*uint32 {
	return [...]*uint32{&r.RTMax, &r.RTPref, &r.RTMult, &r.WTMax, &r.WTPref, &r.WTMult, &r.DTPref}
}

// Append appends the FSINFO3res.
func (r *FSInfoRes) Append(b []byte) []byte {
	b = r.Attr.Append(xdr.AppendUint32(b, uint32(r.Status)))
	if r.Status != OK {
		return b
	}
	for _, v := range r.fields() {
		b = xdr.AppendUint32(b, *v)
	}
	b = r.TimeDelta.append(xdr.AppendUint64(b, r.MaxFileSize))
	return xdr.AppendUint32(b, r.Properties)
}

// Parse reads the FSINFO3res.
func (r *FSInfoRes) Parse(d *xdr.Decoder) error {
	r.Status = Status(d.Uint32())
	r.Attr.parse(d)
	if r.Status == OK {
		for _, v := range r.fields() {
			*v = d.Uint32()
		}
		r.MaxFileSize = d.Uint64()
		r.TimeDelta.parse(d)
		r.Properties = d.Uint32()
	}
	return d.ErrIn("FSINFO3res")
}
