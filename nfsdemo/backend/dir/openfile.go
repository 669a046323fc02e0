package dir

import (
	"os"
	"sync"
	"sync/atomic"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// openFile is an open regular file.
type openFile struct {
	f     *os.File
	fs    *FS
	write bool        // open for writing too
	dirty atomic.Bool // written since the last sync

	mu sync.Mutex // one sync at a time
}

// Close closes the file. If it has writes that were not synced, it is synced first: the error
// of a write is reported once per open file, and must reach the verifier.
func (o *openFile) Close() error {
	if o.dirty.Load() {
		_, _ = o.sync(syncData) // the verifier says it
	}
	return o.f.Close()
}

// openFile opens n, a regular file, for reading or also for writing: ErrInval if it is of
// another kind. The caller puts the slot back.
func (n *node) openFile(write bool) (*slot[*openFile], error) {
	f := n.fs
	if n.typ != nfs3.TypeReg {
		return nil, nfs3.ErrInval
	}
	if s := f.files.get(n.key); s != nil {
		if s.v.write || !write {
			return s, nil
		}
		f.files.put(s)
	}
	var s *slot[*openFile]
	err := n.at(func(d *openDir, name string, _ *stat) error {
		o, err := d.file(n, name, write)
		if err != nil {
			return err
		}
		s = f.files.add(n.key, o, write)
		return nil
	})
	return s, err
}

// file opens the regular file name, which must be n.
func (d *openDir) file(n *node, name string, write bool) (*openFile, error) {
	flag := os.O_RDONLY
	if write {
		flag = os.O_RDWR
	}
	// What name is may have changed to a pipe since it was looked at: do not wait for one.
	file, err := d.root.OpenFile(name, flag|openFlags, 0)
	if err != nil {
		return nil, status(err)
	}
	st, err := n.fs.statOpen(file, n.key)
	if err == nil && st.key != n.key {
		err = nfs3.ErrStale
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return &openFile{f: file, fs: n.fs, write: write}, nil
}
