package nfs3

import "github.com/stag-rdma/stag/xdr"

// MkdirArgs is MKDIR3args (RFC 1813 Section 3.3.9).
type MkdirArgs struct {
	Where DirOpArgs
	Attr  SetAttr
}

// Append appends the MKDIR3args.
func (a *MkdirArgs) Append(b []byte) []byte { return a.Attr.Append(a.Where.Append(b)) }

// Parse reads the MKDIR3args; the handle is lent.
func (a *MkdirArgs) Parse(d *xdr.Decoder) error {
	a.Where.parse(d)
	a.Attr.parse(d)
	return d.ErrIn("MKDIR3args")
}

// SymlinkArgs is SYMLINK3args (RFC 1813 Section 3.3.10). The path is reducible.
type SymlinkArgs struct {
	Where DirOpArgs
	Attr  SetAttr
	Path  string // opaque to the server
}

// AppendHead appends everything up to and including the path's count word.
func (a *SymlinkArgs) AppendHead(b []byte) []byte {
	return xdr.AppendUint32(a.Attr.Append(a.Where.Append(b)), uint32(len(a.Path)))
}

// Append appends the SYMLINK3args.
func (a *SymlinkArgs) Append(b []byte) []byte {
	return xdr.AppendString(a.Attr.Append(a.Where.Append(b)), a.Path)
}

// Parse reads the SYMLINK3args; the handle is lent.
func (a *SymlinkArgs) Parse(d *xdr.Decoder) error {
	a.Where.parse(d)
	a.Attr.parse(d)
	a.Path = parseName(d)
	return d.ErrIn("SYMLINK3args")
}

// MknodArgs is MKNOD3args (RFC 1813 Section 3.3.11).
type MknodArgs struct {
	Where DirOpArgs
	Type  FileType // types other than these four have no more fields, and get NFS3ERR_BADTYPE
	Attr  SetAttr  // with TypeChr, TypeBlk, TypeSock and TypeFIFO
	Rdev  Device   // with TypeChr and TypeBlk
}

// Append appends the MKNOD3args.
func (a *MknodArgs) Append(b []byte) []byte {
	b = xdr.AppendUint32(a.Where.Append(b), uint32(a.Type))
	switch a.Type {
	case TypeChr, TypeBlk:
		b = a.Attr.Append(b)
		b = xdr.AppendUint32(xdr.AppendUint32(b, a.Rdev.Major), a.Rdev.Minor)
	case TypeSock, TypeFIFO:
		b = a.Attr.Append(b)
	case TypeReg, TypeDir, TypeLnk:
	}
	return b
}

// Parse reads the MKNOD3args; the handle is lent.
func (a *MknodArgs) Parse(d *xdr.Decoder) error {
	a.Where.parse(d)
	a.Type = FileType(enum(d, uint32(TypeReg), uint32(TypeFIFO)))
	switch a.Type {
	case TypeChr, TypeBlk:
		a.Attr.parse(d)
		a.Rdev.Major, a.Rdev.Minor = d.Uint32(), d.Uint32()
	case TypeSock, TypeFIFO:
		a.Attr.parse(d)
	case TypeReg, TypeDir, TypeLnk:
	}
	return d.ErrIn("MKNOD3args")
}
