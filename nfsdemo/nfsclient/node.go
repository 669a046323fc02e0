package nfsclient

import (
	"io/fs"
	"path"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// Node is a file on the server: its handle, and the path and attributes with which it was found. It
// belongs to the caller; only methods that say so update it.
type Node struct {
	Path string // clean, begins with the export
	FH   nfs3.FileHandle
	Attr nfs3.Attr
}

// memory is about what n takes, in octets.
func (n *Node) memory() int { return entrySize + len(n.Path) + len(n.FH) }

// Name returns the last element of the path.
func (n *Node) Name() string { return path.Base(n.Path) }

// IsDir reports whether n is a directory.
func (n *Node) IsDir() bool { return n.Attr.Type == nfs3.TypeDir }

// IsRegular reports whether n is a regular file.
func (n *Node) IsRegular() bool { return n.Attr.Type == nfs3.TypeReg }

// IsSymlink reports whether n is a symbolic link.
func (n *Node) IsSymlink() bool { return n.Attr.Type == nfs3.TypeLnk }

// Size returns the size in octets, at most 2^63-1.
func (n *Node) Size() int64 { return int64(min(n.Attr.Size, 1<<63-1)) }

// ModTime returns the time of the last change of the data.
func (n *Node) ModTime() time.Time { return n.Attr.Mtime.Time() }

// Mode returns type and permission bits in Go's form.
func (n *Node) Mode() fs.FileMode {
	m := fs.FileMode(n.Attr.Mode & 0o777)
	for bit, flag := range map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if n.Attr.Mode&bit != 0 {
			m |= flag
		}
	}
	return m | typeBits(n.Attr.Type)
}

// typeBits converts an ftype3.
func typeBits(t nfs3.FileType) fs.FileMode {
	switch t {
	case nfs3.TypeReg:
		return 0
	case nfs3.TypeDir:
		return fs.ModeDir
	case nfs3.TypeLnk:
		return fs.ModeSymlink
	case nfs3.TypeFIFO:
		return fs.ModeNamedPipe
	case nfs3.TypeSock:
		return fs.ModeSocket
	case nfs3.TypeChr:
		return fs.ModeDevice | fs.ModeCharDevice
	case nfs3.TypeBlk:
		return fs.ModeDevice
	}
	return fs.ModeIrregular
}
