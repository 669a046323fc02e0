package dir

import (
	"encoding/binary"

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

// ReadDir lists the names after cookie. It opens the directory, and looks up its names, as the caller: who
// may not search it gets no attributes and no handles.
func (n *file) ReadDir(cookie uint64, verf nfs3.CookieVerf, plus bool, fn func(*nfs3.DirPlusEntry) bool) (nfs3.CookieVerf, bool, error) {
	if cookie != 0 && verf != cookieVerf {
		return cookieVerf, false, nfs3.ErrBadCookie
	}
	g, err := n.open()
	if err != nil {
		return cookieVerf, false, err
	}
	defer g.done()
	self, err := g.stat()
	if err != nil {
		return cookieVerf, false, err
	}
	var (
		up    *node // of ".."
		eof   bool
		taken int
		e     nfs3.DirPlusEntry
	)
	if plus { // finding it may take a search
		up, _ = n.fs.above(n.node, g)
	}
	err = n.do(func() (err error) {
		eof, taken, err = n.fs.list(g, cookie, func(r *rawEntry) bool {
			e = nfs3.DirPlusEntry{DirEntry: nfs3.DirEntry{FileID: r.ino, Name: r.name, Cookie: r.cookie}}
			if r.name == ".." && n.node == n.fs.root {
				e.FileID = self.attr.FileID // show nothing of what is above the export
			}
			if plus {
				n.addAttr(g, up, &e)
			}
			return fn(&e)
		})
		return err
	})
	if err != nil && taken > 0 {
		err = nil // the next call returns the error
	}
	return cookieVerf, eof, status(err)
}

// addAttr adds attributes and handle to an entry, if the name still exists. It runs as the caller.
func (n *file) addAttr(d gripRef, up *node, e *nfs3.DirPlusEntry) {
	var (
		c   *node
		st  stat
		err error
	)
	switch e.Name {
	case ".":
		if err = d.access(mayExec); err == nil {
			c = n.node
			st, err = d.stat()
		}
	case "..":
		if up == nil || d.access(mayExec) != nil {
			return
		}
		c = up
		st, err = up.look()
	default:
		c, st, err = n.fs.look(d, e.Name)
	}
	if err == nil {
		e.FileID = st.attr.FileID
		e.Attr = nfs3.SomeAttr(&st.attr)
		e.Handle = nfs3.SomeHandle(c.AppendHandle(nil))
	}
}
