package nfsclient

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"path"
	"strings"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// Sizes of READDIR and READDIRPLUS, in octets. There is room for more than was asked for, and as much for the smallest
// page: some servers count only the entries (RFC 1813 Section 3.3.17 counts the whole resok), or as their own structures
// have them, and a page that has come counts in maxListings, which ends a tree of lies; one refused is one name less.
const (
	dirLeast = 4 << 10
	dirMost  = 64 << 10
	dirRoom  = dirMost + 16<<10
)

// Entries lists a directory with handles and attributes, without "." and "..", in the server's order.
// It uses READDIRPLUS, or READDIR and LOOKUP if that is not supported (RFC 1813 Sections 3.3.16 and
// 3.3.17), and holds one page of the list at a time. After an error the sequence ends. Entries that vanish
// meanwhile are omitted. Besides the errors of calls there are ErrDirLoop, ErrDirEndless, ErrTooDeep,
// ErrNoProgress and ErrBadReply, for servers that would keep the client listing forever.
func (c *Client) Entries(ctx context.Context, dir *Node) iter.Seq2[*Node, error] {
	return func(yield func(*Node, error) bool) {
		list := lister{c: c, dir: dir, plus: true}
		defer list.release()
		for !list.eof {
			page, err := list.next(ctx)
			if err != nil {
				yield(nil, pathErr("readdir", dir.Path, err))
				return
			}
			for i := range page {
				n, err := list.node(ctx, &page[i])
				if isStatus(err, nfs3.ErrNoEnt) {
					continue
				}
				if !yield(n, err) || err != nil {
					return
				}
			}
		}
	}
}

// entry is a name of a page. A Node has its whole path, which in a deep directory is far longer.
type entry struct {
	name string
	fh   nfs3.FileHandle // nil if it must be looked up
	attr nfs3.Attr
}

// entrySize is what an entry takes, besides its name and handle, rounded up.
const entrySize = 256

// node makes a node of an entry, with LOOKUP if the server did not say enough.
func (l *lister) node(ctx context.Context, e *entry) (*Node, error) {
	if e.fh == nil || e.attr.Type == 0 {
		return l.c.Child(ctx, l.dir, e.name)
	}
	return &Node{Path: path.Join(l.dir.Path, e.name), FH: e.fh, Attr: e.attr}, nil
}

// lister is a directory that is being read.
type lister struct {
	c      *Client
	dir    *Node
	plus   bool // READDIRPLUS works, as far as we know
	cookie uint64
	verf   nfs3.CookieVerf
	eof    bool

	held       int64  // octets of the page, counted in c.listings
	total      int    // entries so far
	mark       uint64 // a cookie at which a page ended
	steps, lap int    // pages since then, and after how many the mark moves
}

// next returns the next page.
func (l *lister) next(ctx context.Context) ([]entry, error) {
	before := l.cookie
	l.release()
	page, n, err := l.page(ctx)
	if l.plus && isStatus(err, nfs3.ErrNotSupp) && before == 0 {
		l.plus = false
		page, n, err = l.page(ctx)
	}
	switch {
	case err != nil:
	case !l.eof && (n == 0 || l.cookie == before):
		err = ErrNoProgress
	default:
		err = l.watch(n)
	}
	if err == nil {
		err = l.hold(page)
	}
	return page, err
}

// Bounds on what a server can make a client walk through. Choice: the path bound is PATH_MAX of Linux,
// and ends every recursion, since each level is at least two octets longer. A recursion holds one page per
// level: from fewListings on small ones are asked for, so that an honest tree does not reach maxListings.
const (
	maxEntries  = 1 << 20
	maxPath     = 4096
	fewListings = 16 << 20
	maxListings = 64 << 20
)

// levelSize is what a directory that is being listed takes besides its page: a listing, the stacks of its users, and
// their copies of its path, of which pathCopies are usual.
const (
	levelSize  = 4 << 10
	pathCopies = 4
)

// hold counts the memory of a page, until release.
func (l *lister) hold(page []entry) error {
	l.held = int64(cap(page))*entrySize + levelSize + pathCopies*int64(len(l.dir.Path))
	for i := range page {
		l.held += int64(len(page[i].name) + len(page[i].fh))
	}
	if l.c.listings.Add(l.held) > maxListings {
		return ErrTooDeep
	}
	return nil
}

// release forgets the page.
func (l *lister) release() {
	l.c.listings.Add(-l.held)
	l.held = 0
}

// watch refuses a list that repeats a cookie or is too long. Brent's algorithm finds every circle of pages
// in constant memory, within three times its length plus that of the way there.
func (l *lister) watch(n int) error {
	if l.total += n; l.total > maxEntries {
		return ErrDirEndless
	}
	if l.eof {
		return nil
	}
	if l.lap > 0 && l.cookie == l.mark {
		return ErrDirLoop
	}
	if l.steps++; l.steps >= l.lap {
		l.mark, l.steps, l.lap = l.cookie, 0, max(2*l.lap, 1)
	}
	return nil
}

// page calls READDIRPLUS or READDIR; n counts the entries, "." and ".." too.
func (l *lister) page(ctx context.Context) (page []entry, n int, err error) {
	size := min(max(l.c.info.DTPref, dirLeast), dirMost)
	if l.c.listings.Load() > fewListings {
		size = dirLeast
	}
	add := func(e *nfs3.DirEntry, fh nfs3.FileHandle, attr nfs3.Attr) error {
		n++
		ok, err := l.take(e)
		if ok {
			page = append(page, entry{e.Name, fh, attr})
		}
		return err
	}
	if !l.plus {
		args := nfs3.ReadDirArgs{Dir: l.dir.FH, Cookie: l.cookie, Verf: l.verf, Count: size}
		var res nfs3.ReadDirRes
		call := rpc.Call{Proc: uint32(nfs3.ProcReadDir), Args: xdr.Encode(nil, &args), MaxResults: dirRoom}
		err = l.c.exchange(ctx, &call, &res, nil)
		page, l.verf, l.eof = make([]entry, 0, len(res.Entries)), res.Verf, res.EOF
		for i := 0; err == nil && i < len(res.Entries); i++ {
			err = add(&res.Entries[i], nil, nfs3.Attr{})
		}
		return page, n, err
	}
	args := nfs3.ReadDirPlusArgs{Dir: l.dir.FH, Cookie: l.cookie, Verf: l.verf, DirCount: size, MaxCount: size}
	var res nfs3.ReadDirPlusRes
	call := rpc.Call{Proc: uint32(nfs3.ProcReadDirPlus), Args: xdr.Encode(nil, &args), MaxResults: dirRoom}
	err = l.c.exchange(ctx, &call, &res, func() (err error) {
		page, l.verf, l.eof = make([]entry, 0, len(res.Entries)), res.Verf, res.EOF
		for i := 0; err == nil && i < len(res.Entries); i++ {
			e := &res.Entries[i]
			if e.Handle.Present && e.Attr.Present {
				err = add(&e.DirEntry, bytes.Clone(e.Handle.Handle), e.Attr.Attr)
			} else {
				err = add(&e.DirEntry, nil, nfs3.Attr{})
			}
		}
		return err
	})
	return page, n, err
}

// take checks an entry; ok is false for "." and "..". An invalid name is an error, because it could lead
// a recursive copy out of its directory.
func (l *lister) take(e *nfs3.DirEntry) (ok bool, err error) {
	l.cookie = e.Cookie
	if e.Name == "." || e.Name == ".." {
		return false, nil
	}
	if e.Name == "" || strings.ContainsAny(e.Name, "/\x00") {
		return false, fmt.Errorf("%w: file name %q", ErrBadReply, e.Name)
	}
	if len(l.dir.Path)+1+len(e.Name) > maxPath {
		return false, ErrDirEndless
	}
	return true, nil
}

// maxReadDir is the memory that ReadDir may take, in octets.
const maxReadDir = 64 << 20

// ReadDir collects [Client.Entries], up to 64 MiB of them; a larger directory is ErrDirLarge.
func (c *Client) ReadDir(ctx context.Context, dir *Node) ([]*Node, error) {
	var list []*Node
	size := 0
	for n, err := range c.Entries(ctx, dir) {
		if err != nil {
			return list, err
		}
		if size += n.memory(); size > maxReadDir {
			return list, pathErr("readdir", dir.Path, ErrDirLarge)
		}
		list = append(list, n)
	}
	return list, nil
}
