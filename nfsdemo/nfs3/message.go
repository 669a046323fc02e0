package nfs3

import (
	"math"

	"github.com/stag-rdma/stag/xdr"
)

// Message is implemented by the arguments and results of every procedure.
type Message interface {
	// Append appends the XDR encoding to b and returns it. It copies everything.
	Append(b []byte) []byte
	// Parse reads the message from d. The error is a *xdr.DecodeError. File handles and
	// data are views of d's input; names and paths are copies.
	Parse(d *xdr.Decoder) error
}

// Result is a Message that begins with a status: all results but that of NULL.
type Result interface {
	Message
	Stat() Status
}

// Void is the arguments and results of NULL.
type Void struct{}

// Append returns b.
func (*Void) Append(b []byte) []byte { return b }

// Parse reads nothing.
func (*Void) Parse(*xdr.Decoder) error { return nil }

// HandleArgs is the arguments of the procedures that take only a file handle: GETATTR, READLINK,
// FSSTAT, FSINFO and PATHCONF.
type HandleArgs struct {
	Handle FileHandle
}

// Append appends the nfs_fh3.
func (a *HandleArgs) Append(b []byte) []byte { return appendHandle(b, a.Handle) }

// Parse reads the nfs_fh3; the handle is lent.
func (a *HandleArgs) Parse(d *xdr.Decoder) error {
	a.Handle = parseHandle(d)
	return d.ErrIn("nfs_fh3")
}

// DirOpArgs is a diropargs3: a name in a directory (RFC 1813 Section 2.6). It is the
// arguments of LOOKUP, REMOVE and RMDIR.
type DirOpArgs struct {
	Dir  FileHandle
	Name string
}

// Append appends the diropargs3.
func (a *DirOpArgs) Append(b []byte) []byte {
	return xdr.AppendString(appendHandle(b, a.Dir), a.Name)
}

// Parse reads the diropargs3; the handle is lent.
func (a *DirOpArgs) Parse(d *xdr.Decoder) error {
	a.parse(d)
	return d.ErrIn("diropargs3")
}

func (a *DirOpArgs) parse(d *xdr.Decoder) {
	a.Dir = parseHandle(d)
	a.Name = parseName(d)
}

// OptHandle is a post_op_fh3.
type OptHandle struct {
	Present bool
	Handle  FileHandle
}

// SomeHandle returns h as a present post_op_fh3. It borrows h.
func SomeHandle(h FileHandle) OptHandle { return OptHandle{Present: true, Handle: h} }

func (o *OptHandle) append(b []byte) []byte {
	b = xdr.AppendBool(b, o.Present)
	if o.Present {
		b = appendHandle(b, o.Handle)
	}
	return b
}

func (o *OptHandle) parse(d *xdr.Decoder) {
	if o.Present = d.Bool(); o.Present {
		o.Handle = parseHandle(d)
	}
}

func appendHandle(b []byte, h FileHandle) []byte { return xdr.AppendOpaque(b, h) }

func parseHandle(d *xdr.Decoder) FileHandle { return d.Opaque(MaxHandle) }

// parseName copies a filename3 or nfspath3. Their XDR type is string<>, so only the input limits
// the length. A name too long for any file system is decoded, and then refused with
// NFS3ERR_NAMETOOLONG.
func parseName(d *xdr.Decoder) string { return d.String(math.MaxInt) }

func parseVerf(d *xdr.Decoder) (v [VerfSize]byte) {
	copy(v[:], d.FixedOpaque(VerfSize))
	return v
}

func appendVerf(b []byte, v [VerfSize]byte) []byte { return append(b, v[:]...) }
