//go:build !linux

package dir

import (
	"hash/fnv"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// pathOf returns the path of n below the export.
func (f *FS) pathOf(n *node) string {
	var names []string
	for n != f.root {
		p := f.tab.placesOf(n)
		if len(p) == 0 {
			break
		}
		names = append(names, p[0].name)
		n = p[0].dir
	}
	slices.Reverse(names)
	return path.Join(names...)
}

func (f *FS) pathAt(d gripRef, name string) string { return path.Join(f.pathOf(d.node), name) }

// keyAt returns the identity of a name.
func (f *FS) keyAt(d gripRef, name string) key {
	p := f.pathAt(d, name)
	f.sys.mu.Lock()
	defer f.sys.mu.Unlock()
	if id, ok := f.sys.moved[p]; ok {
		return ownKey(0, id, 0)
	}
	h := fnv.New64a()
	h.Write([]byte(p))
	return ownKey(0, h.Sum64(), 0)
}

func (f *FS) statAt(d gripRef, name string) (stat, error) {
	fi, err := d.root.Lstat(name)
	if err != nil {
		return stat{}, status(err)
	}
	return statOf(fi, f.keyAt(d, name)), nil
}

// statFile looks at an open file.
func (f *FS) statFile(file *os.File) (stat, error) {
	fi, err := file.Stat()
	if err != nil {
		return stat{}, status(err)
	}
	return statOf(fi, key{}), nil
}

func statOf(fi fs.FileInfo, k key) stat {
	t := nfs3.TimeOf(fi.ModTime())
	a := nfs3.Attr{
		Type: nfs3.TypeReg, Mode: uint32(fi.Mode().Perm()), Nlink: 1, Size: uint64(fi.Size()), Used: uint64(fi.Size()),
		FSID: 1, FileID: k.ino(), Atime: t, Mtime: t, Ctime: t,
	}
	switch m := fi.Mode(); {
	case m.IsDir():
		a.Type, a.Nlink = nfs3.TypeDir, 2
	case m&fs.ModeSymlink != 0:
		a.Type = nfs3.TypeLnk
	case m&fs.ModeNamedPipe != 0:
		a.Type = nfs3.TypeFIFO
	case m&fs.ModeSocket != 0:
		a.Type = nfs3.TypeSock
	case m&fs.ModeCharDevice != 0:
		a.Type = nfs3.TypeChr
	case m&fs.ModeDevice != 0:
		a.Type = nfs3.TypeBlk
	}
	return stat{key: k, attr: a}
}

func datasync(f *os.File) error { return f.Sync() }

// MaxDescriptors returns how many files and connections the process may have open; here it is not known.
func MaxDescriptors() int { return math.MaxInt }
