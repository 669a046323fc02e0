package juicefs

import (
	"context"
	"encoding/binary"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/internal/caller"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// file is a file as a caller sees it.
type file struct {
	fs  *FS
	ino meta.Ino
	typ nfs3.FileType    // never changes
	who *caller.Identity // nil: this process, which may do everything
}

var _ backend.Node = (*file)(nil)

// types are the types of JuiceFS.
var types = [...]nfs3.FileType{
	meta.TypeFile: nfs3.TypeReg, meta.TypeDirectory: nfs3.TypeDir, meta.TypeSymlink: nfs3.TypeLnk, meta.TypeFIFO: nfs3.TypeFIFO,
	meta.TypeBlockDev: nfs3.TypeBlk, meta.TypeCharDev: nfs3.TypeChr, meta.TypeSocket: nfs3.TypeSock,
}

// typeOf returns the type of a file.
func typeOf(t uint8) nfs3.FileType {
	if int(t) < len(types) {
		return types[t]
	}
	return 0
}

// As returns the file as who sees it.
func (n *file) As(who *caller.Identity) backend.Node {
	return &file{fs: n.fs, ino: n.ino, typ: n.typ, who: who}
}

// at returns another file for the same caller.
func (n *file) at(ino meta.Ino, t uint8) *file {
	return &file{fs: n.fs, ino: ino, typ: typeOf(t), who: n.who}
}

// AppendHandle appends 34 octets.
func (n *file) AppendHandle(b []byte) []byte { return n.fs.appendHandle(b, n.ino, n.typ) }

// ctx is the caller for JuiceFS.
func (n *file) ctx() meta.Context {
	if n.root() {
		return n.fs.v.ctx
	}
	return meta.WrapWithoutCancel(context.Background(), 0, n.who.UID, append([]uint32{n.who.GID}, n.who.Groups...))
}

// stat returns what the database knows of the file. One in JuiceFS's trash is gone.
func (n *file) stat() (meta.Attr, error) {
	var a meta.Attr
	switch st := n.fs.v.m.GetAttr(n.fs.v.ctx, n.ino, &a); {
	case st != 0:
		return a, gone(st)
	case a.Parent.IsTrash() || n.ino.IsTrash():
		return a, nfs3.ErrStale
	case n.ino == meta.RootInode && a.Ctime == 0:
		return a, nfs3.ErrJukebox // JuiceFS makes attributes up if the database takes longer than 300 ms for those of the root
	}
	return a, nil
}

// Attr returns the attributes.
func (n *file) Attr() (nfs3.Attr, error) {
	a, err := n.stat()
	if err != nil {
		return nfs3.Attr{}, err
	}
	return n.fs.attr(n.ino, &a), nil
}

// block is the unit in which JuiceFS counts space.
const block = 4096

// attr converts attributes, and adds what is unstable in this process.
func (f *FS) attr(ino meta.Ino, a *meta.Attr) nfs3.Attr {
	out := nfs3.Attr{
		Type: typeOf(a.Typ), Mode: uint32(a.Mode) & 0o7777, Nlink: a.Nlink, UID: a.Uid, GID: a.Gid, Size: a.Length,
		FSID: f.fsid, FileID: uint64(ino),
		Atime: nfs3.UnixTime(a.Atime, int64(a.Atimensec)), Mtime: nfs3.UnixTime(a.Mtime, int64(a.Mtimensec)), Ctime: nfs3.UnixTime(a.Ctime, int64(a.Ctimensec)),
	}
	switch a.Typ {
	case meta.TypeFile:
		f.v.files.add(ino, &out)
		out.Used = (out.Size + block - 1) / block * block
	case meta.TypeBlockDev, meta.TypeCharDev:
		out.Rdev = nfs3.Device{Major: a.Rdev >> 8 & 0xfff, Minor: a.Rdev&0xff | a.Rdev>>12&0xfff00}
	}
	return out
}

// ReadLink returns the target.
func (n *file) ReadLink() (string, error) {
	if n.typ != nfs3.TypeLnk {
		return "", nfs3.ErrInval
	}
	var target []byte
	if st := n.fs.v.m.ReadLink(n.fs.v.ctx, n.ino, &target); st != 0 {
		return "", gone(st)
	}
	return string(target), nil
}

// verfTimes stores a create verifier in two times, 31 bits in each number of seconds.
func verfTimes(v nfs3.CreateVerf) (atime, mtime nfs3.Time) {
	const mask = 1<<31 - 1
	return nfs3.Time{Sec: binary.BigEndian.Uint32(v[:4]) & mask}, nfs3.Time{Sec: binary.BigEndian.Uint32(v[4:]) & mask}
}
