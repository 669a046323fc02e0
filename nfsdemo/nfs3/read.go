package nfs3

import (
	"math"

	"github.com/stag-rdma/stag/xdr"
)

// ReadArgs is READ3args (RFC 1813 Section 3.3.6).
type ReadArgs struct {
	Handle FileHandle
	Offset uint64 // octets
	Count  uint32 // octets
}

// Append appends the READ3args.
func (a *ReadArgs) Append(b []byte) []byte {
	return xdr.AppendUint32(xdr.AppendUint64(appendHandle(b, a.Handle), a.Offset), a.Count)
}

// Parse reads the READ3args; the handle is lent.
func (a *ReadArgs) Parse(d *xdr.Decoder) error {
	a.Handle = parseHandle(d)
	a.Offset = d.Uint64()
	a.Count = d.Uint32()
	return d.ErrIn("READ3args")
}

// ReadRes is READ3res. The data are reducible.
type ReadRes struct {
	Status  Status
	Attr    OptAttr
	Count   uint32 // octets read, with OK; equal to DataLen in a valid reply
	EOF     bool   // the read reached the end of the file, with OK
	Data    []byte // with OK; lent by Parse
	DataLen uint32 // the data's count word; set by Parse and ParseHead
}

// Stat returns the status.
func (r *ReadRes) Stat() Status { return r.Status }

// AppendHead appends everything before the data's count word.
func (r *ReadRes) AppendHead(b []byte) []byte {
	b = r.Attr.Append(xdr.AppendUint32(b, uint32(r.Status)))
	if r.Status == OK {
		b = xdr.AppendBool(xdr.AppendUint32(b, r.Count), r.EOF)
	}
	return b
}

// Append appends the READ3res with its data; it ignores DataLen.
func (r *ReadRes) Append(b []byte) []byte {
	b = r.AppendHead(b)
	if r.Status == OK {
		b = xdr.AppendOpaque(b, r.Data)
	}
	return b
}

// ParseHead reads everything up to and including the data's count word.
func (r *ReadRes) ParseHead(d *xdr.Decoder) error {
	r.parseFields(d)
	if r.Status == OK {
		r.DataLen = d.Uint32()
	}
	return d.ErrIn("READ3res")
}

// Parse reads the READ3res with its data.
func (r *ReadRes) Parse(d *xdr.Decoder) error {
	r.parseFields(d)
	if r.Status == OK {
		r.Data = d.Opaque(math.MaxInt)
		r.DataLen = uint32(len(r.Data))
	}
	return d.ErrIn("READ3res")
}

func (r *ReadRes) parseFields(d *xdr.Decoder) {
	r.Status = Status(d.Uint32())
	r.Attr.parse(d)
	if r.Status == OK {
		r.Count = d.Uint32()
		r.EOF = d.Bool()
	}
}
