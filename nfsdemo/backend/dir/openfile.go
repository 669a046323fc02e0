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
	write bool        // also open for writing
	dirty atomic.Bool // written since the last sync

	mu sync.Mutex // one sync at a time
}

// Close closes the file. If it has writes that were not synced, it syncs them first: the kernel
// reports the error of a write once per open file, and the verifier must then change.
func (o *openFile) Close() error {
	if o.dirty.Load() {
		_, _ = o.sync(syncData) // an error changes the verifier
	}
	return o.f.Close()
}

// openFile opens the regular file n for reading, and with write also for writing; ErrInval if n
// is of another kind. The caller puts the slot back.
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
	// The name may have become a pipe since we looked: do not wait for its other end.
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
