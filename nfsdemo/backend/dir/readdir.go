package dir

import (
	"encoding/binary"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// rawEntry is a name as the system lists it.
type rawEntry struct {
	name     string
	ino      uint64
	cookie   uint64 // the position after it
	maybeDir bool   // a directory, or unknown
}

// cookieVerf is the verifier of all cookies. They are positions in the file system's own order
// and stay valid as long as the directory exists, even across restarts.
var cookieVerf = nfs3.CookieVerf(binary.BigEndian.AppendUint64(nil, 0x7374616764697231))

// ReadDir lists the names after cookie.
func (n *node) ReadDir(cookie uint64, verf nfs3.CookieVerf, plus bool, fn func(*nfs3.DirPlusEntry) bool) (nfs3.CookieVerf, bool, error) {
	if cookie != 0 && verf != cookieVerf {
		return cookieVerf, false, nfs3.ErrBadCookie
	}
	ref, err := n.open()
	if err != nil {
		return cookieVerf, false, err
	}
	defer ref.done()
	var e nfs3.DirPlusEntry
	eof, taken, err := n.fs.list(ref.openDir, cookie, func(r *rawEntry) bool {
		e = nfs3.DirPlusEntry{DirEntry: nfs3.DirEntry{FileID: r.ino, Name: r.name, Cookie: r.cookie}}
		if r.name == ".." && n == n.fs.root {
			e.FileID = n.key.ino // show nothing of what is above the export
		}
		if plus {
			n.addAttr(ref.openDir, &e)
		}
		return fn(&e)
	})
	if err != nil && taken > 0 {
		err = nil // the next call returns the error
	}
	return cookieVerf, eof, err
}

// addAttr adds attributes and handle to an entry, if the name still exists.
func (n *node) addAttr(d *openDir, e *nfs3.DirPlusEntry) {
	var (
		c   backend.Node
		a   nfs3.Attr
		err error
	)
	if backend.IsDots(e.Name) {
		c, a, err = n.Lookup(e.Name)
	} else {
		c, a, err = n.found(d, e.Name)
	}
	if err == nil {
		e.FileID = a.FileID
		e.Attr = nfs3.SomeAttr(&a)
		e.Handle = nfs3.SomeHandle(c.AppendHandle(make([]byte, 0, handleSize)))
	}
}
