package nfsclient

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/stag-rdma/stag/nfsdemo/internal/crew"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// maxHops is the largest number of symbolic links to follow in one path, as on Linux.
const maxHops = 40

// Lookup finds the file of a path. It follows all symbolic links.
func (c *Client) Lookup(ctx context.Context, p string) (*Node, error) {
	return c.walk(ctx, p, true)
}

// LookupLink is Lookup, but does not follow a symbolic link at the end.
func (c *Client) LookupLink(ctx context.Context, p string) (*Node, error) {
	return c.walk(ctx, p, false)
}

// LookupParent finds the directory that contains p, and returns the last name of p, which need not
// exist. The root of the export has no parent.
func (c *Client) LookupParent(ctx context.Context, p string) (dir *Node, name string, err error) {
	p = path.Clean("/" + p)
	if p == c.export || !within(c.export, p) {
		return nil, "", &ExportError{Path: path.Dir(p), Exports: c.exportList()}
	}
	dir, err = c.Lookup(ctx, path.Dir(p))
	return dir, path.Base(p), err
}

// exportList returns the exports, as far as they are known.
func (c *Client) exportList() []string {
	if len(c.exports) == 0 {
		return []string{c.export}
	}
	return c.exports
}

// walk is a path that is being looked up: the directories passed so far, for "..", and the remaining
// names.
type walk struct {
	passed []*Node // passed[0] is the root
	rest   []string
	hops   int
}

// walk looks up p name by name (RFC 1813 Section 3.3.3: LOOKUP takes a single name and does not follow
// symbolic links).
func (c *Client) walk(ctx context.Context, p string, followLast bool) (*Node, error) {
	p = path.Clean("/" + p)
	if !within(c.export, p) {
		return nil, &ExportError{Path: p, Exports: c.exportList()}
	}
	w := walk{passed: []*Node{c.Root()}, rest: names(strings.TrimPrefix(p, c.export))}
	for len(w.rest) > 0 {
		name := w.rest[0]
		w.rest = w.rest[1:]
		here := w.passed[len(w.passed)-1]
		if name == ".." {
			if len(w.passed) == 1 {
				return nil, pathErr("lookup", p, ErrOutside)
			}
			w.passed = w.passed[:len(w.passed)-1]
			continue
		}
		n, err := c.Child(ctx, here, name)
		if err != nil {
			return nil, err
		}
		if n.IsSymlink() && (followLast || len(w.rest) > 0) {
			if err := c.follow(ctx, &w, n); err != nil {
				return nil, pathErr("lookup", n.Path, err)
			}
			continue
		}
		w.passed = append(w.passed, n)
	}
	return w.passed[len(w.passed)-1], nil
}

// follow puts the target of a symbolic link in front of the remaining names. Choice: an absolute
// target is a path on the server, like those of URLs, and must be in the export.
func (c *Client) follow(ctx context.Context, w *walk, link *Node) error {
	if w.hops++; w.hops > maxHops {
		return ErrTooManyLinks
	}
	target, err := c.ReadLink(ctx, link)
	if err != nil {
		return err
	}
	if path.IsAbs(target) {
		if !within(c.export, path.Clean(target)) {
			return ErrOutside
		}
		w.passed = w.passed[:1]
		target = strings.TrimPrefix(path.Clean(target), c.export)
	}
	w.rest = append(names(target), w.rest...)
	return nil
}

// names splits a path, without empty elements and ".".
func names(p string) []string {
	var list []string
	for name := range strings.SplitSeq(p, "/") {
		if name != "" && name != "." {
			list = append(list, name)
		}
	}
	return list
}

// MkdirAll makes a directory and its missing parents within the export, as mkdir -p does. An existing
// directory is no error.
func (c *Client) MkdirAll(ctx context.Context, p string, mode uint32) (*Node, error) {
	p = path.Clean("/" + p)
	n, err := c.Lookup(ctx, p)
	switch {
	case err == nil && n.IsDir():
		return n, nil
	case err == nil:
		return nil, pathErr("mkdir", p, &StatusError{Proc: nfs3.ProcMkdir, Status: nfs3.ErrNotDir})
	case !isStatus(err, nfs3.ErrNoEnt) || p == c.export:
		return nil, err
	}
	dir, err := c.MkdirAll(ctx, path.Dir(p), mode)
	if err != nil {
		return nil, err
	}
	n, err = c.Mkdir(ctx, dir, path.Base(p), mode)
	if errors.Is(err, fs.ErrExist) { // made meanwhile by somebody else
		return c.Lookup(ctx, p)
	}
	return n, err
}

// RemoveAll removes a file, or a directory with its contents, Config.Parallel names at a time, and returns
// how many it has removed. It does not follow symbolic links. Names that are gone already are no error. The
// first error ends it. Of a tree it holds one page of each directory that it is in.
func (c *Client) RemoveAll(ctx context.Context, dir, n *Node) (int, error) {
	if !n.IsDir() {
		return one(c.Remove(ctx, dir, n.Name()))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := removal{c: c, crew: crew.New(c.cfg.Parallel, c.cfg.MaxTree), cancel: cancel}
	r.tree(ctx, dir, n)
	return int(r.removed.Load()), r.err
}

// removal is a run of RemoveAll.
type removal struct {
	c       *Client
	crew    *crew.Crew
	cancel  context.CancelCauseFunc
	removed atomic.Int64

	mu  sync.Mutex
	err error // the first one
}

// done notes the outcome of one removal, and reports whether the name is gone.
func (r *removal) done(n int, err error) bool {
	r.removed.Add(int64(n))
	if err == nil {
		return true
	}
	r.mu.Lock()
	if r.err == nil {
		r.err = err
	}
	r.mu.Unlock()
	r.cancel(err)
	return false
}

// removePasses limits how often a directory is listed. Cookies may change when names go, and then the
// list leaves some of them out. Choice: a server that moves them so that each pass sees half of what is
// left needs 20 for the largest directory.
const removePasses = 32

// tree removes a directory and its contents, and reports whether it is gone.
func (r *removal) tree(ctx context.Context, parent, n *Node) bool {
	for range removePasses {
		some, err := r.contents(ctx, n)
		if ctx.Err() != nil {
			return r.done(0, context.Cause(ctx))
		}
		if err == nil || isStatus(err, nfs3.ErrStale) { // somebody else may have removed it: then there is no such name
			var gone int
			if gone, err = one(r.c.Rmdir(ctx, parent, n.Name())); err == nil {
				return r.done(gone, nil)
			}
		}
		left := errors.Is(err, fs.ErrExist) || isStatus(err, nfs3.ErrBadCookie)
		if !some || !left {
			return r.done(0, err)
		}
	}
	return r.done(0, pathErr("remove", n.Path, ErrNoProgress))
}

// contents removes what it finds in a directory. some says that it removed some of it.
func (r *removal) contents(ctx context.Context, n *Node) (some bool, err error) {
	var wg sync.WaitGroup
	var gone atomic.Bool
	defer func() {
		wg.Wait()
		some = gone.Load()
	}()
	for child, err := range r.c.Entries(ctx, n) {
		switch {
		case err != nil:
			return false, err
		case !r.crew.Name():
			return false, pathErr("remove", n.Path, ErrTreeEndless)
		case child.IsDir():
			r.crew.Dir(&wg, func() {
				if r.tree(ctx, n, child) {
					gone.Store(true)
				}
			})
		default:
			err = r.crew.File(ctx, &wg, func() {
				if r.done(one(r.c.Remove(ctx, n, child.Name()))) {
					gone.Store(true)
				}
			})
		}
		if err != nil || ctx.Err() != nil {
			return false, err
		}
	}
	return false, nil
}

// one counts a removal.
func one(err error) (int, error) {
	if isStatus(err, nfs3.ErrNoEnt) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return 1, nil
}
