package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/transport/rpc"
)

// maxLate limits how many names of a directory wait until all others are copied.
const maxLate = 10000

// all copies children into dst, several at a time, and returns when that is done. It reports errors. top is
// the directory that was made for the argument, nil in the one above.
func (c *copier) all(ctx context.Context, top target, children iter.Seq2[*source, error], dst target) {
	var wg sync.WaitGroup
	var now sync.Map // names of files in transfer
	var late []*source
	for child, err := range children {
		if err == nil && !c.crew.Name() {
			err = fmt.Errorf("%s: %w", child.show, nfsclient.ErrTreeEndless)
		}
		if err == nil && len(late) > maxLate {
			err = fmt.Errorf("%s: more than %d names that end in %s in a directory: copy them apart, with --exclude", child.show, maxLate, partSuffix)
		}
		switch {
		case err != nil:
		case !child.mode.IsDir() && strings.HasSuffix(child.name, partSuffix):
			late = append(late, child)
		case child.mode.IsDir():
			c.crew.Dir(&wg, func() { c.done(ctx, c.copyDir(ctx, top, child, dst)) })
		default:
			if _, twice := now.LoadOrStore(child.name, nil); twice {
				continue // it was renamed while the directory was listed
			}
			err = c.crew.File(ctx, &wg, func() {
				defer now.Delete(child.name)
				c.done(ctx, c.copy(ctx, child, dst))
			})
		}
		if c.done(ctx, err); err != nil || ctx.Err() != nil {
			break
		}
	}
	wg.Wait()
	// While NAME is copied, NAME.part is what becomes of it. So files of such names have their turn after all
	// others, the shorter ones first, one by one.
	slices.SortStableFunc(late, func(a, b *source) int { return cmp.Compare(len(a.name), len(b.name)) })
	for _, child := range late {
		c.done(ctx, c.copy(ctx, child, dst))
	}
}

// done reports the error of one file or directory, and ends the run if it is useless to go on.
func (c *copier) done(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		return // what ends the run has been reported, or will be
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	c.partial = true
	c.bar.above(func() { c.a.report(err) })
	if endsTree(err) {
		c.cancel(err)
	}
}

// endsTree reports whether after err it is useless, or endless, to go on with the rest of a tree.
func endsTree(err error) bool {
	for _, end := range []error{
		nfsclient.ErrDirLoop, nfsclient.ErrDirEndless, nfsclient.ErrTooDeep, nfsclient.ErrTreeEndless, nfsclient.ErrNoProgress,
		context.DeadlineExceeded,
		nfs3.ErrNoSpc, nfs3.ErrDQuot, nfs3.ErrROFS, syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EMFILE, syscall.ENFILE,
	} {
		if errors.Is(err, end) {
			return true
		}
	}
	return isLost(err)
}

// isLost reports whether the connection is gone.
func isLost(err error) bool {
	_, lost := errors.AsType[*rpc.OpError](err)
	return lost
}

// copy copies what is not a directory.
func (c *copier) copy(ctx context.Context, src *source, dst target) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case isLink(src.mode):
		to, err := src.link(ctx)
		if err != nil {
			return err
		}
		c.say(src, dst, src.name)
		return dst.symlink(ctx, c, src, to)
	case src.mode.IsRegular():
		return c.put(ctx, src, dst)
	}
	return fmt.Errorf("%s: skipped: a %s", src.show, typeName(src.mode))
}

// copyDir copies a directory and its contents.
func (c *copier) copyDir(ctx context.Context, top target, src *source, dst target) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if dst.inside(src) || top != nil && top.is(src) { // or a server that exports this directory shows it there
		return fmt.Errorf("%s: cannot copy a directory into itself", src.show)
	}
	sub, err := dst.sub(ctx, src.name, src.mode.Perm()|0o700)
	if err != nil {
		return err
	}
	defer sub.close()
	if top == nil {
		top = sub
	}
	c.all(ctx, top, c.children(ctx, src), sub)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return sub.finish(ctx, c, src)
}

// children lists a directory, without what is excluded.
func (c *copier) children(ctx context.Context, dir *source) iter.Seq2[*source, error] {
	return func(yield func(*source, error) bool) {
		for child, err := range dir.each(ctx) {
			if err == nil {
				child.rel = path.Join(dir.rel, child.name)
				if c.excludes(child) {
					continue
				}
			}
			if !yield(child, err) || err != nil {
				return
			}
		}
	}
}

// excludes reports whether a pattern of --exclude matches.
func (c *copier) excludes(src *source) bool {
	for _, pattern := range c.exclude {
		name := src.name
		if strings.Contains(pattern, "/") {
			name = src.rel
			pattern = strings.Trim(pattern, "/")
		}
		if ok, _ := path.Match(pattern, name); ok { // bad patterns were refused
			return true
		}
	}
	return false
}
