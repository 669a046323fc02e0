//go:build !linux

package dir

import (
	"io"
	"os"
	"slices"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// modeAtOnce: the mode is set when the file is there.
const modeAtOnce = false

func unlinkAt(d gripRef, name string) error { return d.root.Remove(name) }

func rmdirAt(d gripRef, name string) error { return d.root.Remove(name) }

func symlinkAt(d gripRef, target, name string) error { return d.root.Symlink(target, name) }

func mkdirAt(d gripRef, name string, _ uint32) error { return d.root.Mkdir(name, 0o700) }

func createAt(d gripRef, name string, _ uint32) (*os.File, error) {
	return d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

func mknodAt(gripRef, string, nfs3.FileType, uint32, nfs3.Device) error { return nfs3.ErrNotSupp }

func (f *FS) renameAt(src gripRef, from string, dst gripRef, name string, st *stat) error {
	a, b := f.pathAt(src, from), f.pathAt(dst, name)
	if err := f.top.root.Rename(a, b); err != nil {
		return err
	}
	f.sys.mu.Lock()
	defer f.sys.mu.Unlock()
	if f.sys.moved == nil {
		f.sys.moved = make(map[string]uint64)
	}
	delete(f.sys.moved, a)
	f.sys.moved[b] = st.key.ino()
	return nil
}

func (f *FS) linkAt(g, to gripRef, name string) error {
	return f.top.root.Link(f.pathAt(gripRef{grip: g.dir}, g.name), f.pathAt(to, name))
}

// list reads the whole directory and sorts it by the hashes of the names. The hashes are the
// cookies, so these stay valid while names come and go. Names with the same hash share a
// cookie; a list that stops between them continues after both.
func (f *FS) list(d gripRef, cookie uint64, fn func(*rawEntry) bool) (eof bool, taken int, err error) {
	file, err := d.root.Open(".")
	if err != nil {
		return false, 0, status(err)
	}
	defer file.Close()
	infos, err := file.ReadDir(-1)
	if err != nil && err != io.EOF {
		return false, 0, status(err)
	}
	all := []rawEntry{{name: ".", cookie: 1, maybeDir: true}, {name: "..", cookie: 2, maybeDir: true}}
	for _, e := range infos {
		k := f.keyAt(d, e.Name())
		all = append(all, rawEntry{name: e.Name(), ino: k.ino(), cookie: hashName(e.Name()), maybeDir: e.IsDir()})
	}
	slices.SortFunc(all, func(a, b rawEntry) int {
		switch {
		case a.cookie < b.cookie:
			return -1
		case a.cookie > b.cookie:
			return 1
		}
		return 0
	})
	for i := range all {
		if all[i].cookie <= cookie {
			continue
		}
		if !fn(&all[i]) {
			return false, taken, nil
		}
		taken++
	}
	return true, taken, nil
}

// hashName returns the FNV-1a hash of a name; never 0 or the cookies of "." and "..".
func hashName(name string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return h>>1 | 4
}
