package server

import (
	"errors"
	"strings"
	"sync"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// crossing is a directory of an export that another one covers.
type crossing struct {
	path string // below the root
	to   uint32 // number of the other

	mu sync.Mutex
	id uint64 // of the directory; 0: not found yet
}

// at reports whether a directory is the one.
func (c *crossing) at(fsys backend.FS, id uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.id == 0 { // found now: who serves the exports does not wait for their disks
		n, a, err := fsys.Root(), nfs3.Attr{}, error(nil)
		for name := range strings.SplitSeq(c.path, "/") {
			if n, a, err = n.Lookup(name); err != nil {
				return false
			}
		}
		c.id = a.FileID
	}
	return c.id == id
}

// over returns what covers a directory; nil: nothing.
func (e *export) over(a *nfs3.Attr) *crossing {
	if a.Type != nfs3.TypeDir {
		return nil
	}
	for _, c := range e.below {
		if c.at(e.FS, a.FileID) {
			return c
		}
	}
	return nil
}

// cross returns the root of the export that covers a directory, and its handle. As Linux's server does, it returns nil if there is
// none, or none for this client: he sees the directory.
func (o *op) cross(f *file) (nfs3.FileHandle, *file, error) {
	c := o.exp.over(&f.attr)
	if c == nil {
		return nil, nil, nil
	}
	to := o.s.enter(c.to)
	if to == nil {
		return nil, nil, nil
	}
	defer to.use.leave()
	if _, err := o.s.admit(ended, to, o.c); err != nil && !errors.Is(err, errSec) { // who is not known as it wants asks there
		return nil, nil, nil
	}
	if to.FS == nil {
		return nil, nil, nfs3.ErrJukebox
	}
	root := to.FS.Root()
	a, err := root.Attr()
	if err != nil {
		return nil, nil, err
	}
	return to.appendHandle(nil, root), &file{node: root, attr: a}, nil
}
