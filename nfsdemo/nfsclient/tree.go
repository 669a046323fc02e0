package nfsclient

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"sync"
	"sync/atomic"

	"github.com/stag-rdma/stag/nfsdemo/internal/crew"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

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
