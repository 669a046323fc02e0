package mem

import (
	"sort"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// Cookies: 1 is the position after ".", 2 the one after ".."; names count on from there. A
// directory gives each cookie once, so a name keeps its cookie.
const dotCookies = 2

// ReadDir lists the names after cookie.
func (n *file) ReadDir(cookie uint64, verf nfs3.CookieVerf, plus bool, fn func(*nfs3.DirPlusEntry) bool) (nfs3.CookieVerf, bool, error) {
	n.fs.mu.RLock()
	defer n.fs.mu.RUnlock()
	own := nfs3.CookieVerf(n.fs.boot)
	if err := n.live(); err != nil {
		return own, false, err
	}
	self, err := n.Attr()
	if err != nil {
		return own, false, err
	}
	if !n.may(&self, permR) {
		return own, false, nfs3.ErrAcces
	}
	plus = plus && n.may(&self, permX) // attributes and handles are found by a search
	if cookie != 0 && verf != own {
		return own, false, nfs3.ErrBadCookie
	}
	for c := cookie; c < dotCookies; c++ {
		name, of := ".", n.node
		if c == 1 {
			name, of = "..", n.parent
		}
		if !fn(of.entry(name, c+1, plus)) {
			return own, false, nil
		}
	}
	at := sort.Search(len(n.order), func(i int) bool { return n.order[i].cookie > cookie })
	for _, e := range n.order[at:] {
		if e.node != nil && !fn(e.node.entry(e.name, e.cookie, plus)) {
			return own, false, nil
		}
	}
	return own, true, nil
}

// entry returns the directory entry for n under a name.
func (n *node) entry(name string, cookie uint64, plus bool) *nfs3.DirPlusEntry {
	e := &nfs3.DirPlusEntry{DirEntry: nfs3.DirEntry{FileID: n.attr.FileID, Name: name, Cookie: cookie}}
	if plus {
		if a, err := n.Attr(); err == nil {
			e.Attr = nfs3.SomeAttr(&a)
			e.Handle = nfs3.SomeHandle(n.AppendHandle(nil))
		}
	}
	return e
}
