//go:build !linux

package dir

import (
	"hash/fnv"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

const openFlags = 0

// sysFS makes identities where the system has no portable ones: hashes of paths. A renamed file
// keeps the identity that it had before.
type sysFS struct {
	mu    sync.Mutex
	moved map[string]uint64
}

func (s *sysFS) init(*os.File, string) error { return nil }

func isRoot() bool { return false }

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

func (f *FS) pathAt(d *openDir, name string) string {
	if d.node == nil {
		return name
	}
	return path.Join(f.pathOf(d.node), name)
}

// newKey returns the identity of a name.
func (f *FS) newKey(d *openDir, name string) key {
	p := f.pathAt(d, name)
	f.sys.mu.Lock()
	defer f.sys.mu.Unlock()
	if id, ok := f.sys.moved[p]; ok {
		return key{ino: id}
	}
	h := fnv.New64a()
	h.Write([]byte(p))
	return key{ino: h.Sum64()}
}

func (f *FS) statAt(d *openDir, name string) (stat, error) {
	fi, err := d.root.Lstat(name)
	if err != nil {
		return stat{}, status(err)
	}
	return statOf(fi, f.newKey(d, name)), nil
}

func (f *FS) statOpen(file *os.File, want key) (stat, error) {
	fi, err := file.Stat()
	if err != nil {
		return stat{}, status(err)
	}
	return statOf(fi, want), nil
}

func statOf(fi fs.FileInfo, k key) stat {
	t := nfs3.TimeOf(fi.ModTime())
	a := nfs3.Attr{
		Type: nfs3.TypeReg, Mode: uint32(fi.Mode().Perm()), Nlink: 1, Size: uint64(fi.Size()), Used: uint64(fi.Size()),
		FSID: 1, FileID: k.ino, Atime: t, Mtime: t, Ctime: t,
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

// usage is unknown here.
func usage(*os.File) (backend.Usage, error) {
	const much = 1 << 40
	return backend.Usage{
		TotalBytes: much, FreeBytes: much, AvailBytes: much,
		TotalFiles: much, FreeFiles: much, AvailFiles: much,
	}, nil
}

func datasync(f *os.File) error { return f.Sync() }

// Now returns 0: there are no births to compare with.
func (f *FS) Now() int64 { return 0 }
