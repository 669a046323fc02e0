package nfsclient

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"path"
	"strings"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// Sizes of READDIR and READDIRPLUS, in octets. The slack is for servers that count only the entries
// (RFC 1813 Section 3.3.17 counts the whole resok).
const (
	dirLeast = 4 << 10
	dirMost  = 64 << 10
	dirSlack = 1 << 10
)

// Entries lists a directory with handles and attributes, without "." and "..", in the server's order.
// It uses READDIRPLUS, or READDIR and LOOKUP if that is not supported (RFC 1813 Sections 3.3.16 and
// 3.3.17). After an error the sequence ends. Entries that vanish meanwhile are omitted. Besides the errors of
// calls there are ErrDirLoop, ErrDirEndless, ErrNoProgress and ErrBadReply, for servers that would keep
// the client listing forever.
func (c *Client) Entries(ctx context.Context, dir *Node) iter.Seq2[*Node, error] {
	return func(yield func(*Node, error) bool) {
		list := lister{c: c, dir: dir, plus: true}
		for !list.eof {
			page, err := list.next(ctx)
			if err != nil {
				yield(nil, pathErr("readdir", dir.Path, err))
				return
			}
			for _, n := range page {
				if n.FH == nil || n.Attr.Type == 0 {
					full, err := c.Child(ctx, dir, n.Name())
					if isStatus(err, nfs3.ErrNoEnt) {
						continue
					}
					if err != nil {
						yield(nil, err)
						return
					}
					n = full
				}
				if !yield(n, nil) {
					return
				}
			}
		}
	}
}

// lister is a directory that is being read.
type lister struct {
	c      *Client
	dir    *Node
	plus   bool // READDIRPLUS works, as far as we know
	cookie uint64
	verf   nfs3.CookieVerf
	eof    bool

	total      int    // entries so far
	mark       uint64 // a cookie at which a page ended
	steps, lap int    // pages since then, and after how many the mark moves
}

// next returns the next page. Nodes without handle or attributes must be looked up.
func (l *lister) next(ctx context.Context) ([]*Node, error) {
	before := l.cookie
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
	return page, err
}

// Bounds on what a server can make a client walk through. Choice: the path bound is PATH_MAX of Linux,
// and ends every recursion, since each level is at least two octets longer.
const (
	maxEntries = 1 << 20
	maxPath    = 4096
)

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
func (l *lister) page(ctx context.Context) (page []*Node, n int, err error) {
	size := min(max(l.c.info.DTPref, dirLeast), dirMost)
	if !l.plus {
		return l.plainPage(ctx, size)
	}
	args := nfs3.ReadDirPlusArgs{Dir: l.dir.FH, Cookie: l.cookie, Verf: l.verf, DirCount: size, MaxCount: size}
	var res nfs3.ReadDirPlusRes
	var bad error
	err = l.c.callSized(ctx, nfs3.ProcReadDirPlus, &args, &res, 4+int(size)+dirSlack, func() {
		for i := range res.Entries {
			e := &res.Entries[i]
			var node *Node
			if node, bad = l.node(&e.DirEntry); bad != nil {
				return
			}
			if node != nil {
				if e.Handle.Present && e.Attr.Present {
					node.FH, node.Attr = bytes.Clone(e.Handle.Handle), e.Attr.Attr
				}
				page = append(page, node)
			}
		}
		l.verf, l.eof = res.Verf, res.EOF
	})
	if err == nil {
		err = bad
	}
	return page, len(res.Entries), err
}

// plainPage calls READDIR.
func (l *lister) plainPage(ctx context.Context, size uint32) (page []*Node, n int, err error) {
	args := nfs3.ReadDirArgs{Dir: l.dir.FH, Cookie: l.cookie, Verf: l.verf, Count: size}
	var res nfs3.ReadDirRes
	if err := l.c.callSized(ctx, nfs3.ProcReadDir, &args, &res, 4+int(size)+dirSlack, nil); err != nil {
		return nil, 0, err
	}
	for i := range res.Entries {
		node, err := l.node(&res.Entries[i])
		if err != nil {
			return nil, 0, err
		}
		if node != nil {
			page = append(page, node)
		}
	}
	l.verf, l.eof = res.Verf, res.EOF
	return page, len(res.Entries), nil
}

// node makes a node from an entry, nil for "." and "..". An invalid name is an error, because it could
// lead a recursive copy out of its directory.
func (l *lister) node(e *nfs3.DirEntry) (*Node, error) {
	l.cookie = e.Cookie
	if e.Name == "." || e.Name == ".." {
		return nil, nil //nolint:nilnil // documented
	}
	if e.Name == "" || strings.ContainsAny(e.Name, "/\x00") {
		return nil, fmt.Errorf("%w: file name %q", ErrBadReply, e.Name)
	}
	if len(l.dir.Path)+1+len(e.Name) > maxPath {
		return nil, ErrDirEndless
	}
	return &Node{Path: path.Join(l.dir.Path, e.Name)}, nil
}

// ReadDir collects [Client.Entries].
func (c *Client) ReadDir(ctx context.Context, dir *Node) ([]*Node, error) {
	var list []*Node
	for n, err := range c.Entries(ctx, dir) {
		if err != nil {
			return list, err
		}
		list = append(list, n)
	}
	return list, nil
}
