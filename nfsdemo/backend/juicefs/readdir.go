package juicefs

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// Cookies: 1 is the position after ".", 2 the one after "..". That of a name is a hash of it with a key that the servers
// share, so it is the same at all of them and stays while other names come and go. Of a million names, two have the
// same hash with a probability of 10^-7; then one of them may be left out where a page ends.
const dotCookies = 2

// entry is a name in a list.
type entry struct {
	cookie uint64
	ino    meta.Ino
	name   string
	typ    uint8
	attr   *meta.Attr // nil: not known anymore
}

// list is a directory with its names in the order of their cookies.
type list struct {
	seen    stamp
	at      time.Time
	entries []entry
}

// freshTime is how old the attributes in a list may be.
const freshTime = time.Second

// Limits of the lists that are kept, in names.
const (
	maxListed   = 1 << 20 // of all of them; some 100 octets each
	maxWithAttr = 1 << 14 // of one that keeps attributes, which take twice that
)

// lists keeps directories that take more than one page. It is safe for concurrent use.
type lists struct {
	mu    sync.Mutex
	m     map[meta.Ino]*list
	names int
}

// get returns the list of a directory that has not changed since.
func (l *lists) get(ino meta.Ino, seen stamp) *list {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d := l.m[ino]; d != nil && d.seen == seen {
		return d
	}
	return nil
}

// put keeps a list, or forgets that of the directory if d is nil.
func (l *lists) put(ino meta.Ino, d *list) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old := l.m[ino]; old != nil {
		l.names -= len(old.entries)
		delete(l.m, ino)
	}
	if d == nil || len(d.entries) > maxListed {
		return
	}
	for i, old := range l.m {
		if l.names+len(d.entries) <= maxListed {
			break
		}
		l.names -= len(old.entries)
		delete(l.m, i)
	}
	if len(d.entries) > maxWithAttr && d.entries[0].attr != nil { // else others read it already
		for i := range d.entries {
			d.entries[i].attr = nil
		}
	}
	if l.m == nil {
		l.m = make(map[meta.Ino]*list)
	}
	l.m[ino] = d
	l.names += len(d.entries)
}

// cookie returns the cookie of a name. It fits into an off_t.
func (f *FS) cookie(name []byte) uint64 {
	var b [keySize + nfs3.MaxName]byte
	k := f.v.names
	n := copy(b[:], k[:])
	n += copy(b[n:], name)
	sum := sha256.Sum256(b[:n])
	return binary.BigEndian.Uint64(sum[:])>>2 + dotCookies + 1
}

// ReadDir lists the names after cookie.
func (n *file) ReadDir(cookie uint64, verf nfs3.CookieVerf, plus bool, fn func(*nfs3.DirPlusEntry) bool) (nfs3.CookieVerf, bool, error) {
	own := n.fs.verf
	if n.typ != nfs3.TypeDir {
		return own, false, nfs3.ErrNotDir
	}
	d, err := n.stat()
	if err == nil {
		err = n.may(&d, meta.MODE_MASK_R)
	}
	if err != nil {
		return own, false, err
	}
	if cookie != 0 && verf != own {
		return own, false, nfs3.ErrBadCookie
	}
	plus = plus && n.may(&d, meta.MODE_MASK_X) == nil // attributes and handles are found by a search
	for c := cookie; c < dotCookies; c++ {
		name := "."
		if c == 1 {
			name = ".."
		}
		of, a, err := n.find(name, &d)
		if err != nil {
			return own, false, err
		}
		if !fn(of.entry(name, c+1, &a, plus)) {
			return own, false, nil
		}
	}
	l, err := n.list(&d, cookie > dotCookies)
	if err != nil {
		return own, false, err
	}
	at, _ := slices.BinarySearchFunc(l.entries, cookie+1, func(e entry, c uint64) int { return cmp.Compare(e.cookie, c) })
	fresh := time.Since(l.at) < freshTime // else the client asks for attributes that it needs
	for _, e := range l.entries[at:] {
		a := e.attr
		if !fresh {
			a = nil
		}
		if !fn(n.at(e.ino, e.typ).entry(e.name, e.cookie, a, plus)) {
			n.fs.v.lists.put(n.ino, l)
			return own, false, nil
		}
	}
	n.fs.v.lists.put(n.ino, nil)
	return own, true, nil
}

// list returns the directory, whose attributes are d. One that another page has left behind will do if no name in it
// has changed.
func (n *file) list(d *meta.Attr, kept bool) (*list, error) {
	v := n.fs.v
	seen := stampOf(d)
	if l := v.lists.get(n.ino, seen); kept && l != nil {
		return l, nil
	}
	v.listing <- struct{}{}
	defer func() { <-v.listing }()
	var all []*meta.Entry
	if st := v.lister.Readdir(v.ctx, n.ino, 1, &all); st != 0 {
		return nil, gone(st)
	}
	l := &list{seen: seen, at: time.Now()}
	for _, e := range all[dotCookies:] { // the first two are "." and ".."
		l.entries = append(l.entries, entry{n.fs.cookie(e.Name), e.Inode, string(e.Name), e.Attr.Typ, e.Attr})
	}
	slices.SortFunc(l.entries, func(a, b entry) int { return cmp.Compare(a.cookie, b.cookie) })
	return l, nil
}

// entry returns the directory entry for n under a name.
func (n *file) entry(name string, cookie uint64, a *meta.Attr, plus bool) *nfs3.DirPlusEntry {
	e := &nfs3.DirPlusEntry{DirEntry: nfs3.DirEntry{FileID: uint64(n.ino), Name: name, Cookie: cookie}}
	if plus {
		if a != nil && a.Full {
			attr := n.fs.attr(n.ino, a)
			e.Attr = nfs3.SomeAttr(&attr)
		}
		e.Handle = nfs3.SomeHandle(n.AppendHandle(nil))
	}
	return e
}
