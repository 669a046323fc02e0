package nfs3

import (
	"hash/maphash"

	"github.com/stag-rdma/stag/xdr"
)

// Changes reports whether a call of p changes something, and returns the hashes of the handles of the files and
// directories that it changes, as far as args have them; 0: none.
//
// Choice: WRITE does. If it runs again, it writes the same octets, but perhaps after a later WRITE
// to the same place: the first transmission may still wait in a connection that its client has
// given up.
func (p Proc) Changes(args []byte) (objects [2]uint64, changes bool) {
	switch p {
	case ProcSetAttr, ProcWrite, ProcCreate, ProcMkdir, ProcSymlink, ProcMknod, ProcRemove, ProcRmdir, ProcRename, ProcLink:
	default:
		return objects, false
	}
	d := xdr.NewDecoder(args)
	objects[0] = FileHandle(d.Opaque(MaxHandle)).Hash()
	if p == ProcRename {
		d.Opaque(MaxName)
	}
	if p == ProcRename || p == ProcLink {
		objects[1] = FileHandle(d.Opaque(MaxHandle)).Hash()
	}
	return objects, true
}

var handleSeed = maphash.MakeSeed()

// Hash returns a hash of h that holds in this process, 0 if h is empty.
func (h FileHandle) Hash() uint64 {
	if len(h) == 0 {
		return 0
	}
	return maphash.Bytes(handleSeed, h) | 1
}
