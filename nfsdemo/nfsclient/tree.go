package nfsclient

import (
	"context"
	"errors"
	"io/fs"
	"path"

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

// RemoveAll removes a file, or a directory with its contents, and returns how many names it has
// removed. It does not follow symbolic links. Names that are gone already are no error.
func (c *Client) RemoveAll(ctx context.Context, dir, n *Node) (int, error) {
	if !n.IsDir() {
		return one(c.Remove(ctx, dir, n.Name()))
	}
	list, err := c.ReadDir(ctx, n) // first: removing changes the cookies
	if err != nil {
		return 0, err
	}
	total := 0
	for _, child := range list {
		count, err := c.RemoveAll(ctx, n, child)
		if total += count; err != nil {
			return total, err
		}
	}
	count, err := one(c.Rmdir(ctx, dir, n.Name()))
	return total + count, err
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
