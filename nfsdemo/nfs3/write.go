package nfs3

import (
	"math"

	"github.com/stag-rdma/stag/xdr"
)

// WriteArgs is WRITE3args (RFC 1813 Section 3.3.7). The data are reducible.
type WriteArgs struct {
	Handle FileHandle
	Offset uint64 // octets
	Count  uint32 // octets; must be the length of Data
	Stable StableHow
	Data   []byte // lent by Parse
}

// AppendHead appends everything up to and including the data's count word, which is Count.
func (a *WriteArgs) AppendHead(b []byte) []byte {
	return xdr.AppendUint32(a.appendFields(b), a.Count)
}

// Append appends the WRITE3args with its data.
func (a *WriteArgs) Append(b []byte) []byte {
	return xdr.AppendOpaque(a.appendFields(b), a.Data)
}

func (a *WriteArgs) appendFields(b []byte) []byte {
	b = xdr.AppendUint64(appendHandle(b, a.Handle), a.Offset)
	return xdr.AppendUint32(xdr.AppendUint32(b, a.Count), uint32(a.Stable))
}

// ParseHead reads everything before the data's count word; the handle is lent.
func (a *WriteArgs) ParseHead(d *xdr.Decoder) error {
	a.Handle = parseHandle(d)
	a.Offset = d.Uint64()
	a.Count = d.Uint32()
	a.Stable = StableHow(enum(d, uint32(Unstable), uint32(FileSync)))
	return d.ErrIn("WRITE3args")
}

// Parse reads the WRITE3args; handle and data are lent.
func (a *WriteArgs) Parse(d *xdr.Decoder) error {
	_ = a.ParseHead(d) // d keeps its error
	a.Data = d.Opaque(math.MaxInt)
	return d.ErrIn("WRITE3args")
}

// WriteRes is WRITE3res.
type WriteRes struct {
	Status    Status
	Wcc       Wcc
	Count     uint32    // octets written, with OK
	Committed StableHow // at least the stability asked for, with OK
	Verf      WriteVerf // with OK
}

// Stat returns the status.
func (r *WriteRes) Stat() Status { return r.Status }

// Append appends the WRITE3res.
func (r *WriteRes) Append(b []byte) []byte {
	b = r.Wcc.Append(xdr.AppendUint32(b, uint32(r.Status)))
	if r.Status == OK {
		b = xdr.AppendUint32(xdr.AppendUint32(b, r.Count), uint32(r.Committed))
		b = appendVerf(b, r.Verf)
	}
	return b
}

// Parse reads the WRITE3res.
func (r *WriteRes) Parse(d *xdr.Decoder) error {
	r.Status = Status(d.Uint32())
	r.Wcc.parse(d)
	if r.Status == OK {
		r.Count = d.Uint32()
		r.Committed = StableHow(enum(d, uint32(Unstable), uint32(FileSync)))
		r.Verf = parseVerf(d)
	}
	return d.ErrIn("WRITE3res")
}

// CommitArgs is COMMIT3args (RFC 1813 Section 3.3.21).
type CommitArgs struct {
	Handle FileHandle
	Offset uint64 // octets
	Count  uint32 // octets; 0: to the end of the file
}

// Append appends the COMMIT3args.
func (a *CommitArgs) Append(b []byte) []byte {
	return xdr.AppendUint32(xdr.AppendUint64(appendHandle(b, a.Handle), a.Offset), a.Count)
}

// Parse reads the COMMIT3args; the handle is lent.
func (a *CommitArgs) Parse(d *xdr.Decoder) error {
	a.Handle = parseHandle(d)
	a.Offset = d.Uint64()
	a.Count = d.Uint32()
	return d.ErrIn("COMMIT3args")
}

// CommitRes is COMMIT3res.
type CommitRes struct {
	Status Status
	Wcc    Wcc
	Verf   WriteVerf // with OK
}

// Stat returns the status.
func (r *CommitRes) Stat() Status { return r.Status }

// Append appends the COMMIT3res.
func (r *CommitRes) Append(b []byte) []byte {
	b = r.Wcc.Append(xdr.AppendUint32(b, uint32(r.Status)))
	if r.Status == OK {
		b = appendVerf(b, r.Verf)
	}
	return b
}

// Parse reads the COMMIT3res.
func (r *CommitRes) Parse(d *xdr.Decoder) error {
	r.Status = Status(d.Uint32())
	r.Wcc.parse(d)
	if r.Status == OK {
		r.Verf = parseVerf(d)
	}
	return d.ErrIn("COMMIT3res")
}
