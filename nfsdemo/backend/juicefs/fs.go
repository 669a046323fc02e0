package juicefs

import (
	"fmt"
	"net"
	"path"
	"strconv"
	"strings"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/internal/caller"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// maxFile is the size of the largest file in octets (vfs.maxFileSize).
const maxFile = meta.ChunkSize<<31 - 1

// FS is a directory of a Volume with all that is below it. It is safe for concurrent use.
type FS struct {
	v    *Volume
	root meta.Ino
	seal key
	verf nfs3.CookieVerf
	fsid uint64
}

var _ backend.FS = (*FS)(nil)

// FS returns the directory dir of the volume, "/" for all of it. Handles are valid only for the same directory.
func (v *Volume) FS(dir string) (*FS, error) {
	ino := meta.RootInode
	for name := range strings.SplitSeq(path.Clean("/" + dir)[1:], "/") {
		if name == "" {
			continue
		}
		var a meta.Attr
		if st := v.m.Lookup(v.ctx, ino, name, &ino, &a, false); st != 0 {
			return nil, fmt.Errorf("juicefs: %s in volume %s: %w: make it first", dir, v.name, st)
		}
		if a.Typ != meta.TypeDirectory {
			return nil, fmt.Errorf("juicefs: %s in volume %s is not a directory: name one", dir, v.name)
		}
	}
	f := &FS{v: v, root: ino, fsid: v.fsid}
	f.seal = v.key.derive("handle " + strconv.FormatUint(uint64(ino), 10))
	verf := v.key.derive("cookie")
	copy(f.verf[:], verf[:])
	return f, nil
}

// Root returns the directory.
func (f *FS) Root() backend.Node { return &file{fs: f, ino: f.root, typ: nfs3.TypeDir} }

// Resolve returns the file of a handle, without looking whether it still exists.
func (f *FS) Resolve(_ net.Addr, h []byte) (backend.Node, error) {
	ino, typ, err := f.parse(h)
	if err != nil {
		return nil, err
	}
	return &file{fs: f, ino: ino, typ: typ}, nil
}

// Info returns the limits of JuiceFS.
func (f *FS) Info() backend.Info {
	return backend.Info{MaxFileSize: maxFile, LinkMax: 1 << 16, NameMax: meta.MaxName, MayBlock: true, Owners: true}
}

// Usage returns the counts of the volume.
func (f *FS) Usage() (backend.Usage, error) {
	var total, avail, used, free uint64
	if st := f.v.m.StatFS(f.v.ctx, f.root, &total, &avail, &used, &free); st != 0 {
		return backend.Usage{}, gone(st)
	}
	return backend.Usage{
		TotalBytes: total, FreeBytes: avail, AvailBytes: avail, TotalFiles: used + free, FreeFiles: free, AvailFiles: free,
	}, nil
}

// Close writes what this process has not written yet. It does not close the Volume.
func (f *FS) Close() error { return f.v.files.flush() }

// Ready reports false: what is in a cache is not known here.
func (f *FS) Ready(*caller.Identity, []byte) bool { return false }
