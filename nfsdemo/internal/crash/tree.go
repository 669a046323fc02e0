package crash

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// Tree holds the files below a directory, by slash-separated path.
type Tree map[string]*Entry

// Entry is one name of a Tree.
type Entry struct {
	Type   nfs3.FileType
	Mode   uint32 // permission bits
	ID     any    // equal for all names of the same object
	Target string
	Stamps []uint64 // of the pieces of a regular file
}

// ReadTree reads the files below dir.
func ReadTree(dir string) (Tree, error) {
	t := make(Tree)
	var infos []fs.FileInfo // one of each object
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		id := slices.IndexFunc(infos, func(o fs.FileInfo) bool { return os.SameFile(o, fi) })
		if id < 0 {
			id, infos = len(infos), append(infos, fi)
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		e := &Entry{Mode: uint32(fi.Mode().Perm()), ID: id}
		t[filepath.ToSlash(rel)] = e
		return e.read(name, fi)
	})
	return t, err
}

// read reads the content of the file, or the target of the link.
func (e *Entry) read(name string, fi fs.FileInfo) (err error) {
	switch fi.Mode().Type() {
	case 0:
		e.Type = nfs3.TypeReg
		b, err := os.ReadFile(name)
		e.Stamps = stamps(b)
		return err
	case fs.ModeDir:
		e.Type = nfs3.TypeDir
	case fs.ModeSymlink:
		e.Type = nfs3.TypeLnk
		e.Target, err = os.Readlink(name)
	case fs.ModeNamedPipe:
		e.Type = nfs3.TypeFIFO
	default: // no operation makes such a file
	}
	return err
}
